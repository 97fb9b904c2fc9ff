package dnsserver

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"signpost/discovery"
)

// TestSlowForwardBesideCluster checks W23 with the real zones: while upstreams
// are silent, cluster names are answered on the same connection, and over UDP
// however many queries wait.
func TestSlowForwardBesideCluster(t *testing.T) {
	t.Parallel()
	came, gate := make(chan struct{}, 100), make(chan struct{})
	up := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg {
		came <- struct{}{}
		wait(t, gate)
		return []*dns.Msg{good(t, r, "@ 60 IN A 192.0.2.1")}
	})
	cluster, store := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local", "in-addr.arpa"}, Fallthrough: []string{"in-addr.arpa"}}, "")
	cluster.update(store.Update(func(tx *discovery.Tx) {
		tx.PutService(&discovery.Service{
			Key: discovery.Key{Namespace: "ns", Name: "svc"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.9")},
		})
	}))
	reg := prometheus.NewRegistry()
	cfg, fc := forwardTo(up)
	fc.Timeout = 4 * time.Second
	cfg.MaxQueries = 8 // of which 6 for waiting
	cfg.Registerer = reg
	cfg.Blocks[0].Cluster = cluster
	s := startWith(t, cfg, nil)

	c, u := dialTCP(t, addrOf(s)), dialUDP(t, addrOf(s))
	for range 6 {
		_, _ = u.Write(pack(t, askFor("www.example.", dns.TypeA)))
		<-came
	}
	for range 14 { // beyond what may wait: told at once, not queued
		_, _ = u.Write(pack(t, askFor("www.example.", dns.TypeA)))
		if m := unpack(t, readUDP(t, u)); m.Rcode != dns.RcodeRefused {
			t.Errorf("excess: %v, want REFUSED", m)
		}
	}
	c.send(frame(pack(t, askFor("9.0.96.11.in-addr.arpa.", dns.TypePTR)))) // falls through; refused, six wait
	c.recv()
	for _, query := range []*dns.Msg{askFor("svc.ns.svc.cluster.local.", dns.TypeA), askFor("missing.ns.svc.cluster.local.", dns.TypeA)} {
		c.send(frame(pack(t, query)))
		m := unpack(t, c.recv())
		if m.Id != query.Id || !m.Authoritative || !m.RecursionAvailable {
			t.Errorf("W23, G1, G2: %v; want an authoritative answer with RA", m)
		}
		if m := queryUDP(t, addrOf(s), query); !m.Authoritative {
			t.Errorf("W23 over UDP: %v", m)
		}
	}
	close(gate)
	for range 6 {
		readUDP(t, u)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	text := scrape(t, reg)
	for _, want := range []string{
		`coredns_dns_responses_total{plugin="kubernetes",rcode="NOERROR",server="dns://127.0.0.1:0",view="",zone="."} 2`,
		`coredns_dns_responses_total{plugin="kubernetes",rcode="NXDOMAIN",server="dns://127.0.0.1:0",view="",zone="."} 2`,
		`coredns_dns_responses_total{plugin="forward",rcode="NOERROR",server="dns://127.0.0.1:0",view="",zone="."} 6`,
		`coredns_dns_responses_total{plugin="forward",rcode="REFUSED",server="dns://127.0.0.1:0",view="",zone="."} 15`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestListenSpellings checks that two spellings of an address are one.
func TestListenSpellings(t *testing.T) {
	t.Parallel()
	cfg := configFor(":53", "[::1]:53")
	cfg.Blocks = append(cfg.Blocks, configFor("[::]:53").Blocks...)
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "already served") {
		t.Errorf(`":53" and "[::]:53": %v`, err)
	}
	cfg.Blocks[1].Listen = []string{"[0:0::1]:53"}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "already served") {
		t.Errorf(`"[::1]:53" and "[0:0::1]:53": %v`, err)
	}
	cfg.Blocks[1].Listen = []string{"0.0.0.0:53"}
	if s, err := New(cfg); err != nil || len(s.plan) != 3 {
		t.Errorf(`":53", "[::1]:53" and "0.0.0.0:53": %v`, err)
	}
}
