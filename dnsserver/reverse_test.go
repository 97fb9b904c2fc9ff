package dnsserver

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"signpost/discovery"
)

func TestReverseZones(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, prefix string
		want         []string
	}{
		{"R10 an octet", "10.0.0.0/8", []string{"10.in-addr.arpa."}},
		{"R10 two octets, host bits set", "10.96.3.4/16", []string{"96.10.in-addr.arpa."}},
		{"R10 inside an octet", "10.96.0.0/14", []string{"96.10.in-addr.arpa.", "97.10.in-addr.arpa.", "98.10.in-addr.arpa.", "99.10.in-addr.arpa."}},
		{"R10 one address", "10.1.2.3/32", []string{"3.2.1.10.in-addr.arpa."}},
		{"R10 half of all", "128.0.0.0/7", []string{"128.in-addr.arpa.", "129.in-addr.arpa."}},
		{"R10 all of IPv4", "0.0.0.0/0", []string{"in-addr.arpa."}},
		{"R10 nibbles", "fd00:96::/32", []string{"6.9.0.0.0.0.d.f.ip6.arpa."}},
		{"R10 inside a nibble", "fd00::/7", []string{"c.f.ip6.arpa.", "d.f.ip6.arpa."}},
		{"R10 all of IPv6", "::/0", []string{"ip6.arpa."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ReverseZones(netip.MustParsePrefix(c.prefix)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := ReverseZones(netip.MustParsePrefix("10.96.0.0/12")); len(got) != 16 || got[15] != "111.10.in-addr.arpa." {
		t.Errorf("R10 a service network of 12 bits: got %q", got)
	}
	if got := ReverseZones(netip.Prefix{}); got != nil {
		t.Errorf("no prefix: got %q", got)
	}
}

func TestPointerList(t *testing.T) {
	t.Parallel()
	key := discovery.Key{Namespace: "default", Name: "db"}
	hostname := pointerEntry(rankHostname, "db-0", key)
	service := pointerEntry(rankService, "", key)
	dashed := pointerEntry(rankDashed, "10-0-0-1", key)
	var list pointerList
	for _, entry := range []pointerList{dashed, hostname, service, hostname, dashed} {
		list = list.with(entry)
	}
	if list != hostname+service+dashed {
		t.Errorf("R3 hostnames first, each once: got %q", list)
	}
	if got := list.without(service); got != hostname+dashed {
		t.Errorf("without the second: got %q", got)
	}
	if got := list.without(pointerEntry(rankHostname, "db-1", key)); got != list {
		t.Errorf("without one that is not in it: got %q", got)
	}
	if got := list.without(hostname).without(dashed).without(service); got != "" {
		t.Errorf("without all: got %q", got)
	}
}

func TestEndpointOfManyServices(t *testing.T) {
	t.Parallel()
	c, store := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local", "in-addr.arpa"}}, "")
	addr := netip.MustParseAddr("10.244.0.2")
	put := func(name, hostname string) {
		c.update(store.Update(func(tx *discovery.Tx) {
			tx.PutService(&discovery.Service{
				Key: discovery.Key{Namespace: "ns", Name: name}, Kind: discovery.Headless,
				Slices: []*discovery.Slice{{Endpoints: []discovery.Endpoint{{Addr: addr, Hostname: hostname, Ready: true}}}},
			})
		}))
	}
	names := func() string {
		var list []string
		for _, rr := range ask(c.Middleware(nil), "2.0.244.10.in-addr.arpa.", "PTR").Answer {
			list = append(list, strings.TrimSuffix(strings.Fields(rr.String())[4], ".ns.svc.cluster.local."))
		}
		return strings.Join(list, " ")
	}
	put("aaa", "")
	put("zzz", "pod-0")
	if got := names(); got != "pod-0.zzz 10-244-0-2.aaa" {
		t.Errorf("R3 A21: got %s", got)
	}
	put("aaa", "pod-0")
	if got := names(); got != "pod-0.aaa pod-0.zzz" {
		t.Errorf("R3 after a change: got %s", got)
	}
	c.update(store.Update(func(tx *discovery.Tx) { tx.DeleteService(discovery.Key{Namespace: "ns", Name: "aaa"}) }))
	if got := names(); got != "pod-0.zzz" {
		t.Errorf("R3 after one is gone: got %s", got)
	}
}
