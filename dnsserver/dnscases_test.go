package dnsserver

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// TestACLBeforeCache checks that nobody gets from the cache what others were
// allowed to ask for (A45, CVE-2026-26017): one listener on two addresses, and
// an acl that tells its clients apart.
func TestACLBeforeCache(t *testing.T) {
	t.Parallel()
	cfg := configFor("127.0.0.1:0")
	b := &cfg.Blocks[0]
	cache := DefaultCacheConfig()
	b.Cache = &cache
	b.Forwards = behind(t, "secret.example. 300 IN A 192.0.2.1")
	b.Rewrites = []RewriteRule{{From: "alias.example", To: "secret.example"}}
	b.ACL = []ACLRule{{Zones: []string{"secret.example"}, Policies: []ACLPolicy{
		{Action: ACLAllow, Nets: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, {Action: ACLBlock},
	}}}
	to := addrOf(startWith(t, cfg, nil)).String()
	ask := func(from, name string) string {
		t.Helper()
		client := dns.Client{Timeout: patience, Dialer: dialerFrom(from)}
		m, _, err := client.Exchange(askFor(name, dns.TypeA), to)
		if err != nil {
			t.Fatal(err)
		}
		return rcodeLabel(m.Rcode)
	}
	for _, step := range []struct{ from, name, want string }{
		{"127.0.0.1", "secret.example.", "NOERROR"}, // fills the cache
		{"127.0.0.2", "secret.example.", "REFUSED"},
		{"127.0.0.1", "alias.example.", "NOERROR"},
		{"127.0.0.2", "alias.example.", "REFUSED"},
		{"127.0.0.1", "secret.example.", "NOERROR"},
	} {
		if got := ask(step.from, step.name); got != step.want {
			t.Errorf("A45 %s for %s: %s, want %s", step.name, step.from, got, step.want)
		}
	}
}

// TestParallelFamilies checks what musl needs: A and AAAA asked at the same
// time from one socket, both answered with the same code, and never SERVFAIL for
// the family that isn't there (A49).
func TestParallelFamilies(t *testing.T) {
	t.Parallel()
	cluster, store := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local"}}, "")
	cluster.update(store.Update(func(tx *discovery.Tx) {
		tx.MarkSynced()
		tx.PutService(&discovery.Service{
			Key: discovery.Key{Namespace: "ns", Name: "v4"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		})
	}))
	s := serveBlock(t, func(b *Block) {
		b.Cluster = cluster
		b.Forwards = behind(t, "v4.example. 9 IN A 192.0.2.1")
	})
	for _, name := range []string{"v4.ns.svc.cluster.local.", "nosuch.ns.svc.cluster.local.", "v4.example.", "nosuch.example."} {
		conn := dialUDP(t, addrOf(s))
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
			if _, err := conn.Write(pack(t, askFor(name, qtype))); err != nil {
				t.Fatal(err)
			}
		}
		first, second := unpack(t, readUDP(t, conn)), unpack(t, readUDP(t, conn))
		if first.Rcode != second.Rcode || first.Rcode == dns.RcodeServerFailure {
			t.Errorf("A49 %s: %s and %s", name, brief(first), brief(second))
		}
	}
}

// TestSocketPerCore checks that a listening address has a socket for each core
// unless it is told otherwise (A42).
func TestSocketPerCore(t *testing.T) {
	t.Parallel()
	cfg := configFor()
	cfg.UDPSockets = 0
	s := startWith(t, cfg, nil)
	if n := len(s.listeners["127.0.0.1:0"].udp); n != min(runtime.GOMAXPROCS(0), maxUDPSockets) {
		t.Errorf("A42 %d sockets", n)
	}
}

// TestFloodMemory checks that a flood doesn't take memory: what can't be
// answered is dropped, never queued (A41).
func TestFloodMemory(t *testing.T) {
	gate := make(chan struct{})
	cfg := configFor()
	cfg.MaxQueries, cfg.UDPSockets = 64, 1
	s := startWith(t, cfg, dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		wait(t, gate)
		refuse(w, r)
	}))
	conn := dialUDP(t, addrOf(s))
	req := pack(t, askFor("a.example.", dns.TypeA))
	flood := func(n int) {
		for range n {
			_, _ = conn.Write(req) // a full buffer is part of it
		}
	}
	flood(2000) // until everything is as large as it gets
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	flood(50_000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("A41 the heap grew by %d KiB", grown>>10)
	}
	if n := s.inFlight(); n > 64 {
		t.Errorf("A41 %v queries in flight", n)
	}
	close(gate)
}
