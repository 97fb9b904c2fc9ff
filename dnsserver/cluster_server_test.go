package dnsserver

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// overSocket asks a server over a real socket.
func overSocket(t *testing.T, network string, to netip.AddrPort, name, qtype string, size uint16) *dns.Msg {
	t.Helper()
	req := new(dns.Msg).SetQuestion(name, typeOf(qtype))
	if size > 0 {
		req.SetEdns0(size, false)
	}
	client := dns.Client{Net: network, UDPSize: size, Timeout: patience}
	m, _, err := client.Exchange(req, to.String())
	if err != nil {
		t.Fatalf("%s %s over %s: %v", name, qtype, network, err)
	}
	return m
}

// TestClusterBehindServer is the whole way: sockets, chain, zones, forward.
func TestClusterBehindServer(t *testing.T) {
	t.Parallel()
	upstream := startWith(t, configFor(), &fakeUpstream{records: rrs(t, "", "www.example.com. 77 IN A 198.51.100.1")})
	cluster, store := clusterOf(t, ClusterConfig{
		Zones: []string{"cluster.local"}, RecursionAvailable: true, Resolve: Resolve,
	}, "")
	cluster.update(store.Update(func(tx *discovery.Tx) {
		tx.PutService(headlessOf(2500))
		for name, target := range map[string]string{"ext": "www.example.com", "gone": "gone.ns.svc.cluster.local", "far": "nobody.invalid"} {
			tx.PutService(&discovery.Service{
				Key: discovery.Key{Namespace: "ns", Name: name}, Kind: discovery.ExternalName, ExternalName: target,
			})
		}
	}))
	config := configFor()
	config.Blocks[0].Cluster = cluster
	config.Blocks[0].Forwards = []ForwardConfig{{From: ".", To: []string{addrOf(upstream).String()}}}
	at := addrOf(startWith(t, config, nil))

	for _, network := range []string{"udp", "tcp"} {
		m := overSocket(t, network, at, "eXt.ns.svc.cluster.local.", "A", 0)
		if len(m.Answer) != 2 || m.Answer[0].Header().Name != "eXt.ns.svc.cluster.local." || m.Answer[1].Header().Ttl != 77 {
			t.Errorf("X2 G3 over %s: got %s", network, show(m))
		}
		if m := overSocket(t, network, at, "far.ns.svc.cluster.local.", "A", 0); m.Rcode != dns.RcodeNameError || len(m.Answer) != 1 {
			t.Errorf("X7 over %s: got %s", network, show(m))
		}
		if m := overSocket(t, network, at, "gone.ns.svc.cluster.local.", "A", 0); m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1 {
			t.Errorf("X8 over %s: got %s", network, show(m))
		}
	}

	const big = "big.ns.svc.cluster.local."
	if m := overSocket(t, "udp", at, big, "A", 1232); !m.Truncated {
		t.Error("H22 A29: over UDP without TC")
	}
	if m := overSocket(t, "tcp", at, big, "A", 0); m.Truncated || len(m.Answer) != 2500 {
		t.Errorf("H22 A29: over TCP %d addresses, TC %v", len(m.Answer), m.Truncated)
	}
	if m := overSocket(t, "tcp", at, "_http._tcp."+big, "SRV", 0); !m.Truncated || len(m.Answer) == 0 {
		t.Errorf("H22: over TCP more than fits: %d records, TC %v", len(m.Answer), m.Truncated)
	}
}
