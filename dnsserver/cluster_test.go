package dnsserver

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"

	"signpost/discovery"
)

func TestClusterConfigValidate(t *testing.T) {
	t.Parallel()
	selector := func(map[string]string) bool { return true }
	for _, c := range []struct {
		name   string
		config ClusterConfig
		want   string
	}{
		{"good", ClusterConfig{Zones: []string{"cluster.local", "10.in-addr.arpa."}, TTL: MaxTTL, Fallthrough: []string{"."}}, ""},
		{"no zone", ClusterConfig{}, "checking zones: at least one is needed"},
		{"bad zone", ClusterConfig{Zones: []string{"a..b"}}, `checking zone "a..b": not a domain name`},
		{"bad fallthrough", ClusterConfig{Zones: []string{"."}, Fallthrough: []string{"a..b"}}, `checking zone "a..b": not a domain name`},
		{"G5 ttl", ClusterConfig{Zones: []string{"."}, TTL: 3601}, "checking ttl 3601: must be between 0 and 3600"},
		{"multicluster", ClusterConfig{Zones: []string{"."}, Multicluster: []string{"x"}}, `checking multicluster zone "x": must be one of the zones served`},
		{"namespaces twice", ClusterConfig{Zones: []string{"."}, Namespaces: []string{"a"}, NamespaceLabels: selector}, "checking namespaces: can't be chosen by name and by labels at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if err := c.config.Validate(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestReplyHeader(t *testing.T) {
	t.Parallel()
	for _, recursion := range []bool{false, true} {
		c, _ := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local"}, RecursionAvailable: recursion}, "")
		req := new(dns.Msg).SetQuestion("sVc.Cluster.local.", dns.TypeA)
		req.Id, req.CheckingDisabled, req.AuthenticatedData, req.Zero = 4711, true, true, true
		w := &recorder{}
		c.Middleware(nil).ServeDNS(w, req)
		want := dns.MsgHdr{
			Id: 4711, Response: true, Authoritative: true, RecursionDesired: true,
			RecursionAvailable: recursion, CheckingDisabled: true,
		}
		if w.msg.MsgHdr != want {
			t.Errorf("G1 G2: got %+v, want %+v", w.msg.MsgHdr, want)
		}
		if w.msg.Question[0] != req.Question[0] {
			t.Errorf("G3 A56: got question %v", w.msg.Question[0])
		}
	}
}

func TestOutsideOfTheZones(t *testing.T) {
	t.Parallel()
	c, _ := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local"}}, "")
	if m := ask(c.Middleware(nil), "www.example.com.", "A"); m.Rcode != dns.RcodeRefused {
		t.Errorf("T12 no next handler: got %s", dns.RcodeToString[m.Rcode])
	}
	if m := ask(c.Middleware(nil), "xcluster.local.", "A"); m.Rcode != dns.RcodeRefused {
		t.Errorf("T12 a name that only ends alike: got %s", dns.RcodeToString[m.Rcode])
	}
	w, req := &recorder{}, new(dns.Msg).SetQuestion("svc.cluster.local.", dns.TypeA)
	req.Question[0].Qclass = dns.ClassCHAOS
	c.Middleware(nil).ServeDNS(w, req)
	if w.msg.Rcode != dns.RcodeRefused {
		t.Errorf("another class: got %s", dns.RcodeToString[w.msg.Rcode])
	}
}

// headlessOf makes a headless service of n endpoints in slices of a hundred.
func headlessOf(n int) *discovery.Service {
	s := &discovery.Service{Key: discovery.Key{Namespace: "ns", Name: "big"}, Kind: discovery.Headless}
	for i := range n {
		if i%100 == 0 {
			s.Slices = append(s.Slices, &discovery.Slice{Ports: []discovery.EndpointPort{{Name: "http", Port: 8080}}})
		}
		last := s.Slices[len(s.Slices)-1]
		addr := netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)})
		last.Endpoints = append(last.Endpoints, discovery.Endpoint{Addr: addr, Ready: true})
	}
	return s
}

func TestManyEndpoints(t *testing.T) {
	t.Parallel()
	c, store := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local"}}, "")
	for _, n := range []int{80, 250, 2500} {
		c.update(store.Update(func(tx *discovery.Tx) { tx.PutService(headlessOf(n)) }))
		h := c.Middleware(nil)
		if m := ask(h, "big.ns.svc.cluster.local.", "A"); len(m.Answer) != n {
			t.Errorf("H22 A29: %d of %d addresses", len(m.Answer), n)
		}
		m := ask(h, "_http._tcp.big.ns.svc.cluster.local.", "SRV")
		if len(m.Answer) != n || len(m.Extra) != n {
			t.Errorf("H22: %d records and %d addresses of %d", len(m.Answer), len(m.Extra), n)
		}
		if got, want := m.Answer[0].(*dns.SRV).Weight, max(1, 100/n); got != uint16(want) {
			t.Errorf("H11: got weight %d, want %d", got, want)
		}
	}
}

func TestNamesThatNoQueryCanAskFor(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 63)
	zone := strings.Repeat(long+".", 2) + "local."
	c, store := clusterOf(t, ClusterConfig{Zones: []string{zone, "in-addr.arpa"}}, "")
	addr := []netip.Addr{netip.MustParseAddr("10.96.0.1")}
	c.update(store.Update(func(tx *discovery.Tx) {
		for _, k := range []discovery.Key{{Namespace: "ns", Name: "Upper"}, {Namespace: "a.b", Name: "c"}, {Namespace: "", Name: ""}, {Namespace: long, Name: long}} {
			tx.PutService(&discovery.Service{Key: k, ClusterIPs: addr})
		}
	}))
	if m := ask(c.Middleware(nil), "1.0.96.10.in-addr.arpa.", "PTR"); len(m.Answer) != 0 {
		t.Errorf("names that are none, and one that is too long: got %v", m.Answer)
	}
}

func TestLongChain(t *testing.T) {
	t.Parallel()
	c, store := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local"}}, "")
	c.update(store.Update(func(tx *discovery.Tx) {
		for i := range 20 {
			tx.PutService(&discovery.Service{
				Key: discovery.Key{Namespace: "ns", Name: fmt.Sprintf("a%d", i)}, Kind: discovery.ExternalName,
				ExternalName: fmt.Sprintf("a%d.ns.svc.cluster.local", i+1),
			})
		}
	}))
	m := ask(c.Middleware(nil), "a0.ns.svc.cluster.local.", "A")
	if len(m.Answer) != maxChase || m.Rcode != dns.RcodeSuccess {
		t.Errorf("X8: got %d aliases, %s", len(m.Answer), dns.RcodeToString[m.Rcode])
	}
}

func TestWithoutRecursionDesired(t *testing.T) {
	t.Parallel()
	upstream := &fakeUpstream{}
	config := ClusterConfig{Zones: []string{"cluster.local"}, Resolve: upstream.resolve}
	c, store := clusterOf(t, config, "")
	c.update(store.Update(func(tx *discovery.Tx) {
		tx.PutService(&discovery.Service{Key: discovery.Key{Namespace: "ns", Name: "ext"}, Kind: discovery.ExternalName, ExternalName: "www.example.com"})
	}))
	req := new(dns.Msg).SetQuestion("ext.ns.svc.cluster.local.", dns.TypeA)
	req.RecursionDesired = false
	w := &recorder{}
	c.Middleware(nil).ServeDNS(w, req)
	if w.msg.Rcode != dns.RcodeSuccess || len(w.msg.Answer) != 1 {
		t.Errorf("got %s", show(w.msg))
	}
}

func TestSerial(t *testing.T) {
	t.Parallel()
	c, store := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local"}, Pods: PodsVerified}, "")
	service := func(change func(*discovery.Service)) func(*discovery.Tx) {
		s := &discovery.Service{Key: discovery.Key{Namespace: "ns", Name: "web"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}}
		s.Slices = []*discovery.Slice{{Endpoints: []discovery.Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Ready: true}}}}
		change(s)
		return func(tx *discovery.Tx) { tx.PutService(s) }
	}
	pod := func(p discovery.Pod) func(*discovery.Tx) {
		p.Key, p.Addrs = discovery.Key{Namespace: "ns", Name: "web"}, []netip.Addr{netip.MustParseAddr("10.0.0.1")}
		return func(tx *discovery.Tx) { tx.PutPod(&p) }
	}
	for _, step := range []struct {
		name   string
		change func(*discovery.Tx)
		rises  uint32
	}{
		{"G7 a service comes", service(func(*discovery.Service) {}), 1},
		{"G7 its labels change", service(func(s *discovery.Service) { s.Labels = map[string]string{"a": "b"} }), 0},
		{"G7 its node port changes", service(func(s *discovery.Service) { s.HealthCheckNodePort = 30000 }), 0},
		{"G7 its endpoint moves to another slice", service(func(s *discovery.Service) { s.Slices = append([]*discovery.Slice{{}}, s.Slices...) }), 0},
		{"B25 it gets a second family", service(func(s *discovery.Service) { s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr("fd00::1")) }), 1},
		{"G7 its endpoint is not ready", service(func(s *discovery.Service) { s.Slices[0].Endpoints[0].Ready = false }), 1},
		{"G7 a namespace object for a namespace that is known", func(tx *discovery.Tx) { tx.PutNamespace("ns") }, 0},
		{"G7 an empty namespace", func(tx *discovery.Tx) { tx.PutNamespace("other") }, 1},
		{"G7 a pod gets a name", pod(discovery.Pod{Phase: "Running"}), 1},
		{"G7 it becomes ready", pod(discovery.Pod{Phase: "Running", Ready: true}), 0},
		{"P7 it ends", pod(discovery.Pod{Phase: "Failed"}), 1},
		{"G7 a node comes", func(tx *discovery.Tx) { tx.PutNode(&discovery.Node{Name: "n"}) }, 0},
	} {
		before := c.Serial()
		c.update(store.Update(step.change))
		if got := c.Serial() - before; got != step.rises {
			t.Errorf("%s: the serial rose by %d, want %d", step.name, got, step.rises)
		}
	}
	if nextSerial(math.MaxUint32) != 0 {
		t.Error("G7: the serial does not wrap (RFC 1982)")
	}
}

func TestManyChangesInOneSecond(t *testing.T) {
	t.Parallel()
	c, store := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local"}}, "")
	before := c.Serial()
	for n := range 50 {
		c.update(store.Update(func(tx *discovery.Tx) { tx.PutService(headlessOf(n + 1)) }))
	}
	if got := c.Serial() - before; got != 50 {
		t.Errorf("B30: 50 changes, the serial rose by %d", got)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := discovery.NewStore()
		c := NewCluster(ClusterConfig{Zones: []string{"cluster.local"}}, store, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		h := c.Middleware(nil)
		rcode := func() string {
			synctest.Wait()
			return dns.RcodeToString[ask(h, "big.ns.svc.cluster.local.", "A").Rcode]
		}
		if got := rcode(); got != "SERVFAIL" || c.Synced() {
			t.Errorf("L2 A35 before the source has spoken: got %s", got)
		}
		store.Update((*discovery.Tx).MarkSynced)
		if got := rcode(); got != "NXDOMAIN" || !c.Synced() {
			t.Errorf("L2 synced: got %s", got)
		}
		store.Update(func(tx *discovery.Tx) { tx.PutService(headlessOf(3)) })
		if got := rcode(); got != "NOERROR" || c.Revision() != store.Current().Revision {
			t.Errorf("A33 created after a miss: got %s", got)
		}
		store.Update(func(tx *discovery.Tx) { tx.DeleteService(discovery.Key{Namespace: "ns", Name: "big"}) })
		if got := rcode(); got != "NXDOMAIN" {
			t.Errorf("A34 deleted: got %s", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ending: %v", err)
		}
	})
}

// TestQueriesDuringChanges is for the race detector (A40).
func TestQueriesDuringChanges(t *testing.T) {
	t.Parallel()
	store := discovery.NewStore()
	store.Update((*discovery.Tx).MarkSynced)
	c := NewCluster(ClusterConfig{Zones: []string{"cluster.local"}}, store, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(ctx) })
	wg.Go(func() {
		for n := range 200 {
			store.Update(func(tx *discovery.Tx) { tx.PutService(headlessOf(1 + n%7)) })
		}
		cancel()
	})
	for range 2 {
		wg.Go(func() {
			h := c.Middleware(nil)
			for ctx.Err() == nil {
				if m := ask(h, "_http._tcp.big.ns.svc.cluster.local.", "SRV"); len(m.Answer) != len(m.Extra) {
					t.Errorf("a mixture of two revisions: %d records, %d addresses", len(m.Answer), len(m.Extra))
				}
			}
		})
	}
	wg.Wait()
}
