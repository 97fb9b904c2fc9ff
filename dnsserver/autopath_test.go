package dnsserver

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"signpost/discovery"
)

// pod makes a pod on loopback, where the tests' clients are.
func podAt(ns, name string, edit ...func(*discovery.Pod)) *discovery.Pod {
	p := &discovery.Pod{
		Key: discovery.Key{Namespace: ns, Name: name}, UID: ns + name, Phase: "Running",
		Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
	}
	for _, f := range edit {
		f(p)
	}
	return p
}

// autopathServer serves a cluster with pods at the client's address.
func autopathServer(t *testing.T, edit func(*Block), pods ...*discovery.Pod) *Server {
	t.Helper()
	cluster, store := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local"}, Pods: PodsVerified, TTL: 5}, "")
	cluster.update(store.Update(func(tx *discovery.Tx) {
		for _, k := range []discovery.Key{{Namespace: "shop", Name: "web"}, {Namespace: "other", Name: "db"}} {
			tx.PutService(&discovery.Service{Key: k, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}})
		}
		for _, p := range pods {
			tx.PutPod(p)
		}
	}))
	return serveBlock(t, func(b *Block) {
		b.Cluster = cluster
		b.AutoPath = &AutoPathConfig{}
		b.Forwards = behind(t, "www.example.com. 60 IN A 192.0.2.1", "secret.example.com. 60 IN A 192.0.2.2")
		edit(b)
	})
}

// TestAutoPath checks that a pod's search path is walked (A4), for that pod
// alone (A44), and never past acl (A45).
func TestAutoPath(t *testing.T) {
	t.Parallel()
	s := autopathServer(t, func(b *Block) {
		b.ACL = []ACLRule{{Zones: []string{"secret.example.com"}, Policies: []ACLPolicy{{Action: ACLBlock}}}}
	}, podAt("shop", "web-0"))
	const search = ".shop.svc.cluster.local."
	askAll(t, s, []asked{
		{"A4 the name itself", "Web" + search, "A", "NOERROR [Web.shop.svc.cluster.local. 5 IN A 10.96.0.1]"},
		{"A4 second domain", "db.other" + search, "A", "NOERROR [db.other.shop.svc.cluster.local. 5 IN CNAME db.other.svc.cluster.local.] [db.other.svc.cluster.local. 5 IN A 10.96.0.1]"},
		{"A4 third domain", "db.other.svc" + search, "A", "NOERROR [db.other.svc.shop.svc.cluster.local. 5 IN CNAME db.other.svc.cluster.local.] [db.other.svc.cluster.local. 5 IN A 10.96.0.1]"},
		{"A4 bare", "www.example.com" + search, "A", "NOERROR [www.example.com.shop.svc.cluster.local. 60 IN CNAME www.example.com.] [www.example.com. 60 IN A 192.0.2.1]"},
	})
	for name, q := range map[string]string{
		"A4 nowhere": "nosuch.example.com" + search, "A4 not the first domain": "web.svc.cluster.local.",
		"A44 another namespace": "www.example.com.other.svc.cluster.local.", "A45 acl on the name found": "secret.example.com" + search,
	} {
		m := overSocket(t, "udp", addrOf(s), q, "A", 1232)
		if m.Rcode != dns.RcodeNameError || len(m.Answer) != 0 || len(m.Ns) != 1 {
			t.Errorf("%s: %s, want the NXDOMAIN of the name itself", name, brief(m))
		}
	}
	if m := overSocket(t, "udp", addrOf(s), "db.other"+search, "AAAA", 1232); len(m.Answer) != 1 || len(m.Ns) != 1 || m.Rcode != 0 {
		t.Errorf("A4 NODATA: %s", brief(m))
	}
	if n := testutil.ToFloat64(s.metrics.links.autopath.WithLabelValues("dns://127.0.0.1:0")); n != 4 {
		t.Errorf("coredns_autopath_success_total %v, want 4", n)
	}
}

// TestAutoPathIdentity checks whom the path is not walked for: whoever isn't
// known for sure (A44).
func TestAutoPathIdentity(t *testing.T) {
	t.Parallel()
	terminating := func(p *discovery.Pod) { p.Terminating = true }
	finished := func(p *discovery.Pod) { p.Phase = "Succeeded" }
	onHost := func(p *discovery.Pod) { p.HostNetwork = true }
	both := func(fs ...func(*discovery.Pod)) func(*discovery.Pod) {
		return func(p *discovery.Pod) {
			for _, f := range fs {
				f(p)
			}
		}
	}
	tests := []struct {
		name  string
		pods  []*discovery.Pod
		walks bool
	}{
		{"A44 nobody has the address", nil, false},
		{"A44 one pod", []*discovery.Pod{podAt("shop", "a")}, true},
		{"A44 host network", []*discovery.Pod{podAt("shop", "a", onHost)}, false},
		{"A44 two pods have it", []*discovery.Pod{podAt("shop", "a"), podAt("other", "b")}, false},
		{"A44 two of one namespace", []*discovery.Pod{podAt("shop", "a"), podAt("shop", "b")}, false},
		{"A44 host network beside it", []*discovery.Pod{podAt("other", "b", onHost), podAt("shop", "a")}, false},
		{"A44 finished", []*discovery.Pod{podAt("shop", "a", finished)}, false},
		{"A44 reused after one that finished", []*discovery.Pod{podAt("other", "b", finished), podAt("shop", "a")}, true},
		{"A44 finished on the host", []*discovery.Pod{podAt("other", "b", both(finished, onHost)), podAt("shop", "a")}, false},
		{"A44 reused while one still ends", []*discovery.Pod{podAt("other", "b", terminating), podAt("shop", "a")}, false},
		{"A44 ends", []*discovery.Pod{podAt("shop", "a", terminating)}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := autopathServer(t, func(*Block) {}, tt.pods...)
			m := overSocket(t, "udp", addrOf(s), "www.example.com.shop.svc.cluster.local.", "A", 1232)
			if walked := len(m.Answer) > 0; walked != tt.walks {
				t.Errorf("walks %v, want %v: %s", walked, tt.walks, brief(m))
			}
		})
	}
}

// TestAutoPathFile checks the path of a resolv.conf, and that the server's own
// questions have none.
func TestAutoPathFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("search One.example two.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveBlock(t, func(b *Block) {
		b.AutoPath = &AutoPathConfig{ResolvConf: file, Zones: []string{"one.example"}}
		b.Forwards = behind(t, "a.two.example. 60 IN A 192.0.2.1", "b.one.example. 60 IN A 192.0.2.2",
			"one.example. 60 IN SOA ns. h. 1 2 3 4 5", "two.example. 60 IN SOA ns. h. 1 2 3 4 5")
	})
	askAll(t, s, []asked{
		{"A4 second", "a.one.example.", "A", "NOERROR [a.one.example. 60 IN CNAME a.two.example.] [a.two.example. 60 IN A 192.0.2.1]"},
		{"A4 first", "b.one.example.", "A", "NOERROR [b.one.example. 60 IN A 192.0.2.2]"},
		{"A4 the domain itself", "one.example.", "A", "NXDOMAIN ns[one.example. 60 IN SOA ns. h. 1 2 3 4 5]"},
		{"A4 another zone", "c.two.example.", "A", "NXDOMAIN ns[two.example. 60 IN SOA ns. h. 1 2 3 4 5]"},
	})
	cfg := configFor()
	cfg.Blocks[0].AutoPath = &AutoPathConfig{ResolvConf: file + ".missing"}
	if _, err := New(cfg); err == nil {
		t.Error("a missing resolv.conf: no error")
	}
}
