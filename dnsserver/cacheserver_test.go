package dnsserver

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"signpost/discovery"
)

// TestCacheBesideCluster checks L7, L8 and A33 through sockets, with
// everything that kubeadm's Corefile has on: a change is in the very next
// answer, over UDP and TCP, while what upstreams say is asked for once.
func TestCacheBesideCluster(t *testing.T) {
	t.Parallel()
	up := constant(t, "192.0.2.1")
	cluster, store := clusterOf(t, ClusterConfig{
		Zones: []string{"cluster.local", "in-addr.arpa"}, Fallthrough: []string{"in-addr.arpa"}, TTL: 30,
		RecursionAvailable: true, Resolve: Resolve,
	}, "")
	conf := DefaultCacheConfig()
	cfg := forwardingTo(up)
	cfg.Blocks[0].Cluster, cfg.Blocks[0].Cache, cfg.Blocks[0].LoadBalance = cluster, &conf, &LoadBalanceConfig{}
	s := startWith(t, cfg, nil)
	key := discovery.Key{Namespace: "ns", Name: "svc"}
	put := func(service *discovery.Service) {
		cluster.update(store.Update(func(tx *discovery.Tx) {
			if service == nil {
				tx.DeleteService(key)
				return
			}
			tx.PutService(service)
		}))
	}
	clusterIP := func(addr string) *discovery.Service {
		return &discovery.Service{Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr(addr)}}
	}
	for _, step := range []struct {
		name    string
		service *discovery.Service
		want    string
	}{
		{"A33 missing", nil, "NXDOMAIN"},
		{"A33 L8 new", clusterIP("10.96.0.9"), "10.96.0.9"},
		{"L7 another address", clusterIP("10.96.0.10"), "10.96.0.10"},
		{"L7 gone", nil, "NXDOMAIN"},
		{"L7 an alias", &discovery.Service{Key: key, Kind: discovery.ExternalName, ExternalName: "www.example.com"}, "192.0.2.1"},
		{"L7 the alias is gone", clusterIP("10.96.0.9"), "10.96.0.9"},
	} {
		put(step.service)
		for range 3 {
			query := askFor("svc.ns.svc.cluster.local.", dns.TypeA)
			for over, m := range map[string]*dns.Msg{"udp": queryUDP(t, addrOf(s), query), "tcp": queryTCP(t, addrOf(s), query)} {
				got := dns.RcodeToString[m.Rcode]
				if n := len(m.Answer); n > 0 {
					got = m.Answer[n-1].(*dns.A).A.String()
				}
				if got != step.want {
					t.Errorf("%s over %s: %s, want %s", step.name, over, got, step.want)
				}
			}
		}
	}
	if n := up.udp.Load() + up.tcp.Load(); n != 1 {
		t.Errorf("upstream was asked %d times for the alias's target, want once", n)
	}
	for range 3 {
		queryUDP(t, addrOf(s), askFor("9.9.9.9.in-addr.arpa.", dns.TypePTR)) // falls through
	}
	if n := up.udp.Load(); n != 4 { // its answer, an address, is none for PTR and isn't kept
		t.Errorf("upstream was asked %d times, want 4", n)
	}
}

// TestCacheOverReload checks L9: what is cached survives a reload that doesn't
// concern it, and doesn't survive one that asks others.
func TestCacheOverReload(t *testing.T) {
	t.Parallel()
	one, two := constant(t, "192.0.2.1"), constant(t, "192.0.2.2")
	reg := prometheus.NewRegistry()
	with := func(up *scripted) Config {
		conf := DefaultCacheConfig()
		cfg := forwardingTo(up)
		cfg.Blocks[0].Cache, cfg.Registerer = &conf, reg
		return cfg
	}
	s := startWith(t, with(one), nil)
	query := func(want string) {
		t.Helper()
		if got := answerOf(queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	reload := func(cfg Config) {
		t.Helper()
		if err := s.Reload(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	query("192.0.2.1")
	query("192.0.2.1")
	other := with(one)
	other.Blocks[0].Errors, other.MaxQueries = true, 100
	reload(other)
	query("192.0.2.1")
	if n := one.udp.Load(); n != 1 {
		t.Errorf("L9: asked %d times, want once: the cache is lost", n)
	}
	reload(with(two))
	query("192.0.2.2")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	text := scrape(t, reg)
	for _, want := range []string{
		`coredns_cache_requests_total{server="dns://127.0.0.1:0",view="",zones="."} 4`,
		`coredns_cache_hits_total{server="dns://127.0.0.1:0",type="success",view="",zones="."} 2`,
		`coredns_cache_misses_total{server="dns://127.0.0.1:0",view="",zones="."} 2`,
		`coredns_cache_entries{server="dns://127.0.0.1:0",type="success",view="",zones="."} 1`,
		`coredns_cache_entries{server="dns://127.0.0.1:0",type="denial",view="",zones="."} 0`,
		`coredns_dns_responses_total{plugin="cache",rcode="NOERROR",server="dns://127.0.0.1:0",view="",zone="."} 2`,
		`coredns_dns_responses_total{plugin="forward",rcode="NOERROR",server="dns://127.0.0.1:0",view="",zone="."} 2`,
		`coredns_proxy_conn_cache_misses_total{proto="udp",proxy_name="forward",to="` + one.addr.String() + `"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestCacheSizes checks F3: an answer that came over one transport is cut to
// what each client takes.
func TestCacheSizes(t *testing.T) {
	t.Parallel()
	up := newScripted(t, func(r *dns.Msg, tcp bool) []*dns.Msg {
		m := good(t, r, many(60)...)
		if !tcp {
			m.Answer, m.Truncated = nil, true
		}
		return []*dns.Msg{m}
	})
	conf := DefaultCacheConfig()
	cfg := forwardingTo(up)
	cfg.Blocks[0].Cache = &conf
	s := startWith(t, cfg, nil)
	for range 2 {
		if m := queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA)); !m.Truncated || m.IsEdns0() != nil || len(m.Answer) == 60 {
			t.Errorf("without EDNS: %d answers, TC %v", len(m.Answer), m.Truncated)
		}
		if m := queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA, edns(1232, false))); m.Truncated || m.IsEdns0() == nil || len(m.Answer) != 60 {
			t.Errorf("with EDNS: %d answers, TC %v", len(m.Answer), m.Truncated)
		}
		if m := queryTCP(t, addrOf(s), askFor("a.example.", dns.TypeA)); m.Truncated || len(m.Answer) != 60 {
			t.Errorf("over TCP: %d answers, TC %v", len(m.Answer), m.Truncated)
		}
	}
	if n := up.tcp.Load(); n != 1 {
		t.Errorf("asked %d times over TCP, want once", n)
	}
}

// TestCacheLoop checks F2: the probe finds a loop through the cache, and
// nothing where there is none.
func TestCacheLoop(t *testing.T) {
	t.Parallel()
	found := make(chan error, 1)
	conf := DefaultCacheConfig()
	cfg := configFor()
	cfg.Fail = func(err error) { found <- err }
	cfg.Blocks[0].Loop, cfg.Blocks[0].Cache = true, &conf
	s := startWith(t, cfg, nil)
	cfg.Blocks[0].Forwards = []ForwardConfig{{From: ".", To: []string{addrOf(s).String()}}}
	if err := s.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	err := <-found
	if text := err.Error(); !strings.Contains(text, "Loop (127.0.0.1:") || !strings.Contains(text, `for zone "."`) || !strings.Contains(text, `"HINFO `) {
		t.Errorf("error %q", text)
	}
	up := constant(t, "192.0.2.1")
	cfg.Blocks[0].Forwards[0].To = []string{up.addr.String()}
	if err := s.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := answerOf(queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))); got != "192.0.2.1" {
		t.Errorf("answer %s", got)
	}
	if len(found) > 0 {
		t.Errorf("found %v where there is no loop", <-found)
	}
}
