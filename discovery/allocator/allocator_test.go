package allocator

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var (
	v4    = []Family{IPv4}
	addrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func newTestAllocator(t testing.TB, change ...func(*Config)) *Allocator {
	t.Helper()
	cfg := Config{ServiceCIDRs: prefixes("10.96.0.0/12", "fd00:96::/108")}
	for _, f := range change {
		f(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Load(); err != nil {
		t.Fatal(err)
	}
	return a
}

// audit checks that the spaces hold exactly what the owners have.
func audit(t testing.TB, a *Allocator) {
	t.Helper()
	want := 0
	for owner, had := range a.held {
		for _, r := range had.resources() {
			got, inRange := a.owner(r)
			if !inRange {
				continue // remembered from a time of other ranges
			}
			if got != owner {
				t.Errorf("%s of %q: owned by %q", r, owner, got)
			}
			want++
		}
	}
	got := len(a.ports.owners)
	for _, p := range slices.Concat(a.services, a.balancers) {
		got += len(p.space.owners)
	}
	if got != want {
		t.Errorf("%d things are marked as owned, owners have %d", got, want)
	}
}

func one(t testing.TB, a *Allocator, r Request) Result {
	t.Helper()
	res := a.Allocate([]Request{r})[0]
	audit(t, a)
	return res
}

func messages(errs []*FieldError) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

func TestBands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cidr, lowest, highest string
	}{
		{"A-02 /12", "10.96.0.0/12", "10.96.1.1", "10.111.255.254"},
		{"A-02 /16", "10.96.0.0/16", "10.96.1.1", "10.96.255.254"},
		{"A-02 /20", "10.96.0.0/20", "10.96.1.1", "10.96.15.254"},
		{"A-02 /22", "10.96.0.0/22", "10.96.0.65", "10.96.3.254"},
		{"A-02 /24", "10.96.0.0/24", "10.96.0.17", "10.96.0.254"},
		{"A-02 /26", "10.96.0.0/26", "10.96.0.17", "10.96.0.62"},
		{"A-02 /28: no band, the first is for kubernetes", "10.96.0.0/28", "10.96.0.2", "10.96.0.14"},
		{"A-01 IPv6 /108", "fd00:96::/108", "fd00:96::101", "fd00:96::f:ffff"},
		{"A-01 IPv6 /120: up to the last", "fd00:96::/120", "fd00:96::11", "fd00:96::ff"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			prefix := netip.MustParsePrefix(c.cidr)
			for want, number := range map[string]func(uint64) uint64{
				c.lowest:  func(uint64) uint64 { return 0 },
				c.highest: func(n uint64) uint64 { return n - 1 },
			} {
				a := newTestAllocator(t, func(cfg *Config) { cfg.ServiceCIDRs, cfg.Random = []netip.Prefix{prefix}, number })
				res := one(t, a, Request{Owner: "n/s", Families: []Family{FamilyOf(prefix.Addr())}})
				if got := res.Assignment.ClusterIPs[0].String(); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
}

func TestIPv6Slash64(t *testing.T) {
	t.Parallel()
	a := newTestAllocator(t, func(cfg *Config) { cfg.ServiceCIDRs = prefixes("fd00:96::/64") })
	res := one(t, a, Request{Owner: "n/a", Families: []Family{IPv6}, ClusterIPs: []netip.Addr{ip("fd00:96::a")}})
	if len(res.Errors) > 0 {
		t.Fatal(messages(res.Errors))
	}
	res = one(t, a, Request{Owner: "n/b", Families: []Family{IPv6}})
	if !netip.MustParsePrefix("fd00:96::/64").Contains(res.Assignment.ClusterIPs[0]) {
		t.Errorf("got %s", res.Assignment.ClusterIPs[0])
	}
}

func TestFullRangeFallsBackToStaticBand(t *testing.T) {
	t.Parallel()
	a := newTestAllocator(t, func(cfg *Config) { cfg.ServiceCIDRs = prefixes("10.96.0.0/27") })
	seen := map[netip.Addr]bool{}
	for i := range 29 { // 30 usable addresses; the first is kept for kubernetes
		res := one(t, a, Request{Owner: fmt.Sprintf("n/s%d", i), Families: v4})
		if len(res.Errors) > 0 || seen[res.Assignment.ClusterIPs[0]] {
			t.Fatalf("service %d: %v %v", i, res.Assignment.ClusterIPs, messages(res.Errors))
		}
		if low := res.Assignment.ClusterIPs[0].Less(ip("10.96.0.17")); low != (i >= 14) {
			t.Errorf("service %d has %s: the dynamic band goes first", i, res.Assignment.ClusterIPs[0])
		}
		seen[res.Assignment.ClusterIPs[0]] = true
	}
	want := []string{"spec.clusterIPs[0]: Internal error: failed to allocate a serviceIP: range 10.96.0.0/27 is full"}
	if diff := cmp.Diff(want, messages(one(t, a, Request{Owner: "n/more", Families: v4}).Errors)); diff != "" {
		t.Error(diff)
	}
	if res := one(t, a, Request{Owner: "default/kubernetes", Families: v4, ClusterIPs: []netip.Addr{ip("10.96.0.1")}}); len(res.Errors) > 0 {
		t.Error(messages(res.Errors))
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	taken := Request{
		Owner: "n/first", Families: []Family{IPv4, IPv6}, ClusterIPs: []netip.Addr{ip("10.96.0.10"), ip("fd00:96::10")},
		Ports: []PortRequest{{Protocol: "TCP", Port: 80, NodePort: 30008}},
	}
	port := func(n uint16) []PortRequest {
		return []PortRequest{{Protocol: "TCP", Port: 80, NodePort: n, Allocate: true}}
	}
	for _, c := range []struct {
		name string
		req  Request
		want []string
	}{
		{"A-03 out of range", Request{Families: v4, ClusterIPs: []netip.Addr{ip("192.0.2.7")}}, []string{
			`spec.clusterIPs[0]: Invalid value: "192.0.2.7": failed to allocate IP 192.0.2.7: the provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/12`,
		}},
		{"A-01 network address", Request{Families: v4, ClusterIPs: []netip.Addr{ip("10.96.0.0")}}, []string{
			`spec.clusterIPs[0]: Invalid value: "10.96.0.0": failed to allocate IP 10.96.0.0: the provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/12`,
		}},
		{"A-01 broadcast address", Request{Families: v4, ClusterIPs: []netip.Addr{ip("10.111.255.255")}}, []string{
			`spec.clusterIPs[0]: Invalid value: "10.111.255.255": failed to allocate IP 10.111.255.255: the provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/12`,
		}},
		{"A-03 taken", Request{Families: v4, ClusterIPs: []netip.Addr{ip("10.96.0.10")}}, []string{
			`spec.clusterIPs[0]: Invalid value: "10.96.0.10": failed to allocate IP 10.96.0.10: provided IP is already allocated to service "n/first"`,
		}},
		{"B76 second family taken", Request{Families: []Family{IPv4, IPv6}, ClusterIPs: []netip.Addr{ip("10.96.0.20"), ip("fd00:96::10")}}, []string{
			`spec.clusterIPs[1]: Invalid value: "fd00:96::10": failed to allocate IP fd00:96::10: provided IP is already allocated to service "n/first"`,
		}},
		{"A-05 out of range", Request{Ports: port(8080)}, []string{
			`spec.ports[0].nodePort: Invalid value: 8080: provided port is not in the valid range. The range of valid ports is 30000-32767`,
		}},
		{"A-05 taken", Request{Ports: port(30008)}, []string{
			`spec.ports[0].nodePort: Invalid value: 30008: provided port is already allocated to service "n/first"`,
		}},
		{"A-06 other protocol of another service", Request{Ports: []PortRequest{{Protocol: "UDP", Port: 80, NodePort: 30008}}}, []string{
			`spec.ports[0].nodePort: Invalid value: 30008: provided port is already allocated to service "n/first"`,
		}},
		{"A-06 twice in one service", Request{Ports: []PortRequest{
			{Name: "a", Protocol: "TCP", Port: 80, NodePort: 30100}, {Name: "b", Protocol: "TCP", Port: 81, NodePort: 30100},
		}}, []string{
			`spec.ports[1].nodePort: Invalid value: 30100: must not be given twice for protocol TCP`,
		}},
		{"A-07 health check port of another service", Request{HealthCheck: true, HealthCheckNodePort: 30008}, []string{
			`spec.healthCheckNodePort: Invalid value: 30008: provided port is already allocated to service "n/first"`,
		}},
		{"A-07 health check port of an own port", Request{Ports: port(30100), HealthCheck: true, HealthCheckNodePort: 30100}, []string{
			`spec.healthCheckNodePort: Invalid value: 30100: provided port is already allocated to spec.ports[0] of this service`,
		}},
		{"all faults at once", Request{Families: v4, ClusterIPs: []netip.Addr{ip("10.96.0.10")}, Ports: port(1)}, []string{
			`spec.clusterIPs[0]: Invalid value: "10.96.0.10": failed to allocate IP 10.96.0.10: provided IP is already allocated to service "n/first"`,
			`spec.ports[0].nodePort: Invalid value: 1: provided port is not in the valid range. The range of valid ports is 30000-32767`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newTestAllocator(t)
			one(t, a, taken)
			c.req.Owner = "n/second"
			res := one(t, a, c.req)
			if diff := cmp.Diff(c.want, messages(res.Errors)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(Assignment{}, a.Held("n/second"), addrs); diff != "" {
				t.Errorf("A-08: something stayed: %s", diff)
			}
		})
	}
}

func TestMissingFamily(t *testing.T) {
	t.Parallel()
	a := newTestAllocator(t, func(cfg *Config) { cfg.ServiceCIDRs = prefixes("10.96.0.0/12") })
	got := messages(one(t, a, Request{Owner: "n/a", Families: []Family{IPv6}}).Errors)
	got = append(got, messages(one(t, a, Request{Owner: "n/a", Families: []Family{IPv6}, ClusterIPs: []netip.Addr{ip("fd00::1")}}).Errors)...)
	want := []string{
		`spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`,
		`spec.clusterIPs[0]: Invalid value: "fd00::1": this cluster is not configured for IPv6`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNodePorts(t *testing.T) {
	t.Parallel()
	dns := func(tcp, udp uint16) []PortRequest {
		return []PortRequest{
			{Name: "dns-tcp", Protocol: "TCP", Port: 53, NodePort: tcp, Allocate: true},
			{Name: "dns", Protocol: "UDP", Port: 53, NodePort: udp, Allocate: true},
			{Name: "metrics", Protocol: "TCP", Port: 9153, Allocate: true},
		}
	}
	t.Run("A-06 equal ports share a number", func(t *testing.T) {
		t.Parallel()
		got := one(t, newTestAllocator(t), Request{Owner: "n/dns", Ports: dns(0, 0)}).Assignment.NodePorts
		if got["dns"] != got["dns-tcp"] || got["dns"] == got["metrics"] || got["dns"] < 30086 || got["metrics"] < 30086 {
			t.Errorf("got %v", got)
		}
	})
	t.Run("B46 same number for TCP and UDP, then another port", func(t *testing.T) {
		t.Parallel()
		a := newTestAllocator(t)
		one(t, a, Request{Owner: "n/dns", Ports: dns(30053, 30053)})
		changed := dns(30053, 30053)
		changed[0].Port, changed[1].Port = 5353, 5353
		res := one(t, a, Request{Owner: "n/dns", Ports: changed})
		if len(res.Errors) > 0 || res.Changed {
			t.Errorf("changed %v: %v", res.Changed, messages(res.Errors))
		}
	})
	t.Run("named and remembered", func(t *testing.T) {
		t.Parallel()
		a := newTestAllocator(t)
		first := one(t, a, Request{Owner: "n/dns", Ports: dns(0, 30053)}).Assignment.NodePorts
		if first["dns-tcp"] != 30053 {
			t.Errorf("got %v, want the number of the equal port", first)
		}
		if diff := cmp.Diff(first, one(t, a, Request{Owner: "n/dns", Ports: dns(0, 0)}).Assignment.NodePorts); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("A-04 the static band is the last resort", func(t *testing.T) {
		t.Parallel()
		a := newTestAllocator(t, func(cfg *Config) { cfg.NodePorts = PortRange{First: 30000, Last: 30031} })
		for i := range 32 {
			got := one(t, a, Request{Owner: fmt.Sprintf("n/%d", i), Ports: []PortRequest{{Protocol: "TCP", Port: 1, Allocate: true}}})
			if dynamic := got.Assignment.NodePorts[""] >= 30016; dynamic != (i < 16) {
				t.Errorf("%d: got %v", i, got.Assignment.NodePorts)
			}
		}
		res := one(t, a, Request{Owner: "n/more", Families: v4, Ports: []PortRequest{{Protocol: "TCP", Port: 1, Allocate: true}}})
		want := []string{"spec.ports[0].nodePort: Internal error: failed to allocate a nodePort: range 30000-30031 is full"}
		if diff := cmp.Diff(want, messages(res.Errors)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("A-08 without allocate none is given and an old one goes", func(t *testing.T) {
		t.Parallel()
		a := newTestAllocator(t)
		one(t, a, Request{Owner: "n/dns", Ports: dns(0, 0)})
		if got := one(t, a, Request{Owner: "n/dns", Ports: []PortRequest{{Name: "dns", Protocol: "UDP", Port: 53}}}); len(got.Assignment.NodePorts) != 0 {
			t.Errorf("got %v", got.Assignment.NodePorts)
		}
	})
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	full := Request{
		Owner: "n/s", Families: []Family{IPv4, IPv6}, HealthCheck: true, Balancer: BalancerRequest{Allocate: true},
		Ports: []PortRequest{{Name: "http", Protocol: "TCP", Port: 80, Allocate: true}},
	}
	single := full
	single.Families = v4
	clusterIPOnly := Request{Owner: "n/s", Families: full.Families, Ports: []PortRequest{{Name: "http", Protocol: "TCP", Port: 80}}}
	a := newTestAllocator(t, func(cfg *Config) { cfg.BalancerPools = prefixes("203.0.113.0/24") })

	first := one(t, a, full).Assignment
	if len(first.ClusterIPs) != 2 || first.NodePorts["http"] == 0 || first.HealthCheckNodePort == 0 || len(first.LoadBalancerIPs) != 1 {
		t.Fatalf("got %+v", first)
	}
	if diff := cmp.Diff(first.ClusterIPs[:1], one(t, a, single).Assignment.ClusterIPs, addrs); diff != "" {
		t.Errorf("dual to single: %s", diff)
	}
	again := one(t, a, full).Assignment
	if again.ClusterIPs[0] != first.ClusterIPs[0] || len(again.ClusterIPs) != 2 {
		t.Errorf("single to dual: got %v, first was %v", again.ClusterIPs, first.ClusterIPs)
	}
	got := one(t, a, clusterIPOnly).Assignment
	if diff := cmp.Diff(Assignment{ClusterIPs: again.ClusterIPs}, got, addrs, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("LoadBalancer to ClusterIP: %s", diff)
	}
	if got := one(t, a, Request{Owner: "n/s"}).Assignment; !got.empty() {
		t.Errorf("to ExternalName: got %+v", got)
	}
	if got := slices.Collect(a.Owners()); len(got) != 0 {
		t.Errorf("owners: %v", got)
	}
}

func TestRefusedChangeKeepsOld(t *testing.T) {
	t.Parallel()
	a := newTestAllocator(t)
	one(t, a, Request{Owner: "n/other", Families: v4, ClusterIPs: []netip.Addr{ip("10.96.0.5")}})
	before := one(t, a, Request{Owner: "n/s", Families: v4, ClusterIPs: []netip.Addr{ip("10.96.0.6")}}).Assignment
	res := one(t, a, Request{Owner: "n/s", Families: v4, ClusterIPs: []netip.Addr{ip("10.96.0.5")}})
	if len(res.Errors) == 0 || res.Changed || res.Lost {
		t.Errorf("got %+v", res)
	}
	if diff := cmp.Diff(before, a.Held("n/s"), addrs); diff != "" {
		t.Error(diff)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	named := func(owner, addr string) Request {
		return Request{Owner: owner, Families: v4, ClusterIPs: []netip.Addr{ip(addr)}}
	}
	t.Run("A-09 named before random, whatever the order", func(t *testing.T) {
		t.Parallel()
		a := newTestAllocator(t, func(cfg *Config) { cfg.Random = func(uint64) uint64 { return 0 } })
		res := a.Allocate([]Request{{Owner: "n/a", Families: v4}, named("n/z", "10.96.1.1")})
		if res[1].Assignment.ClusterIPs[0] != ip("10.96.1.1") || res[0].Assignment.ClusterIPs[0] != ip("10.96.1.2") {
			t.Errorf("got %+v", res)
		}
	})
	t.Run("A-09 the older service wins, then the first of the batch", func(t *testing.T) {
		t.Parallel()
		old := named("n/z", "10.96.0.9")
		old.Created = time.Unix(1, 0)
		for _, c := range []struct {
			reqs   []Request
			winner int
		}{
			{[]Request{named("n/a", "10.96.0.9"), old}, 1},
			{[]Request{named("n/b", "10.96.0.9"), named("n/a", "10.96.0.9")}, 0},
		} {
			for i, res := range newTestAllocator(t).Allocate(c.reqs) {
				if won := len(res.Errors) == 0; won != (i == c.winner) {
					t.Errorf("%s won: %v", c.reqs[i].Owner, won)
				}
			}
		}
	})
	t.Run("swap", func(t *testing.T) {
		t.Parallel()
		a := newTestAllocator(t)
		a.Allocate([]Request{named("n/a", "10.96.0.5"), named("n/b", "10.96.0.6")})
		for _, res := range a.Allocate([]Request{named("n/a", "10.96.0.6"), named("n/b", "10.96.0.5")}) {
			if len(res.Errors) > 0 {
				t.Error(messages(res.Errors))
			}
		}
		audit(t, a)
	})
	t.Run("what went to another can't be kept", func(t *testing.T) {
		t.Parallel()
		a := newTestAllocator(t)
		a.Allocate([]Request{named("n/a", "10.96.0.5"), named("n/x", "10.96.0.7")})
		res := a.Allocate([]Request{named("n/a", "10.96.0.7"), named("n/b", "10.96.0.5")})
		if !res[0].Lost || len(res[0].Errors) == 0 || len(res[1].Errors) > 0 {
			t.Errorf("got %+v", res)
		}
		audit(t, a)
	})
}

func TestBalancer(t *testing.T) {
	t.Parallel()
	pooled := func(cfg *Config) { cfg.BalancerPools = prefixes("203.0.113.0/30", "2001:db8::/126") }
	want := func(named ...netip.Addr) Request {
		return Request{Owner: "n/s", Families: v4, Balancer: BalancerRequest{Allocate: true, Named: named, Field: "spec.loadBalancerIP"}}
	}
	t.Run("lowest free, one of each family", func(t *testing.T) {
		t.Parallel()
		req := want()
		req.Families = []Family{IPv4, IPv6}
		got := one(t, newTestAllocator(t, pooled), req).Assignment.LoadBalancerIPs
		if diff := cmp.Diff([]netip.Addr{ip("203.0.113.1"), ip("2001:db8::1")}, got, addrs); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("named", func(t *testing.T) {
		t.Parallel()
		a := newTestAllocator(t, pooled)
		one(t, a, want())
		got := one(t, a, want(ip("203.0.113.2"))).Assignment.LoadBalancerIPs
		if diff := cmp.Diff([]netip.Addr{ip("203.0.113.2")}, got, addrs); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("named in no pool, or taken: another and a warning", func(t *testing.T) {
		t.Parallel()
		a := newTestAllocator(t, pooled)
		other := want(ip("203.0.113.1"))
		other.Owner = "n/other"
		one(t, a, other)
		for _, c := range []struct{ named, warning string }{
			{"198.51.100.1", `spec.loadBalancerIP: Invalid value: "198.51.100.1": is not in the load-balancer pool 203.0.113.0/30, 2001:db8::/126`},
			{"203.0.113.1", `spec.loadBalancerIP: Invalid value: "203.0.113.1": is already allocated to service "n/other"`},
		} {
			res := one(t, a, want(ip(c.named)))
			if len(res.Errors) > 0 || !slices.Equal(res.Assignment.LoadBalancerIPs, []netip.Addr{ip("203.0.113.2")}) {
				t.Errorf("%s: got %v %v", c.named, res.Assignment, messages(res.Errors))
			}
			if diff := cmp.Diff([]string{c.warning}, messages(res.Warnings)); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("no pool, full pool: pending", func(t *testing.T) {
		t.Parallel()
		if res := one(t, newTestAllocator(t), want()); len(res.Errors)+len(res.Warnings) > 0 || len(res.Assignment.LoadBalancerIPs) > 0 {
			t.Errorf("no pool: got %+v", res)
		}
		a := newTestAllocator(t, pooled)
		for _, owner := range []string{"n/1", "n/2", "n/3"} {
			req := want()
			req.Owner = owner
			res := one(t, a, req)
			if pending := len(res.Assignment.LoadBalancerIPs) == 0; pending != (owner == "n/3") || len(res.Errors) > 0 {
				t.Errorf("%s: got %+v", owner, res)
			}
		}
		a.Release("n/1")
		if got := one(t, a, Request{Owner: "n/3", Families: v4, Balancer: BalancerRequest{Allocate: true}}); len(got.Assignment.LoadBalancerIPs) == 0 {
			t.Error("a freed address is not given out")
		}
	})
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"service ranges: 0 given, must be one or two":                                   {},
		`service range "10.0.0.0/31": too small, it has no usable address`:              {ServiceCIDRs: prefixes("10.0.0.0/31")},
		`service ranges "10.0.0.0/16" and "10.1.0.0/16": must be of different families`: {ServiceCIDRs: prefixes("10.0.0.0/16", "10.1.0.0/16")},
		`node port range "5-4": the first must not be greater than the last, nor 0`:     {ServiceCIDRs: prefixes("10.0.0.0/16"), NodePorts: PortRange{5, 4}},
		`load-balancer pool "invalid Prefix": not a prefix`:                             {ServiceCIDRs: prefixes("10.0.0.0/16"), BalancerPools: make([]netip.Prefix, 1)},
	} {
		if _, err := New(cfg); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if r, err := ParsePortRange("30000-32767"); err != nil || r != DefaultNodePorts {
		t.Errorf("got %v, %v", r, err)
	}
	for _, bad := range []string{"", "1", "2-1", "0-5", "1-65536", "1-2x", "a-b"} {
		if _, err := ParsePortRange(bad); err == nil || !strings.Contains(err.Error(), "FIRST-LAST") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func statePath(t testing.TB) string { return filepath.Join(t.TempDir(), "allocations.yaml") }
