package vip_test

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// The transcripts in testdata hold what the policy means; here stands what
// can't be said there.

func TestPlannerOptions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		options vip.Options
		world   string
		want    []string // frontends
	}{
		{
			"P-01 only the services of our name",
			vip.Options{ProxyName: "mine"},
			"service a/a ips=10.0.0.1 ports=80 proxy=mine\nservice a/b ips=10.0.0.2 ports=80\nservice a/c ips=10.0.0.3 ports=80 proxy=other",
			[]string{"10.0.0.1:80/TCP"},
		},
		{
			"P-27 an allow list admits what it names and nothing else",
			vip.Options{AllowExternalIPs: prefixes("192.0.2.0/28", "192.168.6.1/32", "127.0.0.0/8")},
			"node n1 addrs=192.168.6.1\nservice a/a ips=10.0.0.1 ports=80 external=192.0.2.1,192.168.6.1,8.8.8.8,127.0.0.1",
			[]string{"10.0.0.1:80/TCP", "192.0.2.1:80/TCP", "192.168.6.1:80/TCP"},
		},
		{
			"P-18 relaxed: unusable ranges leave the address open",
			vip.Options{OpenUnusableRanges: true},
			"service a/a type=LoadBalancer ips=10.0.0.1 ports=80 lb=203.0.113.1 ranges=fd00::/8",
			[]string{"10.0.0.1:80/TCP", "203.0.113.1:80/TCP"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := world(t, test.world)
			state := vip.Planner{Options: test.options}.Plan(w.Snapshot, w.Node)
			if diff := cmp.Diff(test.want, frontends(state)); diff != "" {
				t.Errorf("frontends (-want +got):\n%s", diff)
			}
			for v := range state.All() {
				if v.Restricted {
					t.Errorf("%s is restricted", v)
				}
			}
		})
	}
}

// TestPlannerMalformed is X10 and P-25: what can't be programmed is left out
// with a warning, the rest of the service stays, and nothing panics.
func TestPlannerMalformed(t *testing.T) {
	t.Parallel()
	good := func() *discovery.Service {
		return &discovery.Service{
			Key: key("default/web"), ClusterIPs: addrs("10.96.0.7"), Ports: []discovery.Port{{Name: "http", Port: 80}},
			Slices: []*discovery.Slice{{Ports: []discovery.EndpointPort{{Name: "http", Port: 8080}}, Endpoints: []discovery.Endpoint{{Addr: addrs("172.16.1.1")[0], Ready: true, Serving: true}}}},
		}
	}
	tests := []struct {
		name     string
		breaks   func(s *discovery.Service)
		survives bool
		warning  string
	}{
		{"no address in clusterIPs", func(s *discovery.Service) { s.ClusterIPs = append(s.ClusterIPs, netip.Addr{}, netip.IPv4Unspecified()) }, true, "spec.clusterIPs[2]"},
		{"an IPv4-mapped clusterIP is the IPv4 address", func(s *discovery.Service) { s.ClusterIPs = addrs("::ffff:10.96.0.7") }, true, ""},
		{"port 0", func(s *discovery.Service) { s.Ports = append(s.Ports, discovery.Port{Name: "zero"}) }, true, "spec.ports[1].port 0"},
		{"protocol QUIC", func(s *discovery.Service) { s.Ports = append(s.Ports, discovery.Port{Port: 81, Protocol: 9}) }, true, "spec.ports[1].protocol"},
		{"a port twice", func(s *discovery.Service) { s.Ports = append(s.Ports, discovery.Port{Name: "b", Port: 80}) }, true, "is there already"},
		{"a node port twice", func(s *discovery.Service) {
			s.Type = discovery.TypeNodePort
			s.Ports = []discovery.Port{{Name: "http", Port: 80, NodePort: 30080}, {Name: "b", Port: 81, NodePort: 30080}}
		}, true, "spec.ports[1].nodePort 30080/TCP"},
		{"a rule in a port name", func(s *discovery.Service) { s.Ports = append(s.Ports, discovery.Port{Name: "a\n-j ACCEPT", Port: 81}) }, true, "not a port name"},
		{"a rule in the service name", func(s *discovery.Service) { s.Key.Name = `web" -j ACCEPT` }, false, "not a service name"},
		{"a 300-character name", func(s *discovery.Service) { s.Key.Name = strings.Repeat("a", 300) }, false, "not a service name"},
		{"no ports", func(s *discovery.Service) { s.Ports = nil }, false, ""},
		{"affinity without a timeout", func(s *discovery.Service) { s.Affinity.ClientIP = true }, true, ""},
		{"an endpoint without an address", func(s *discovery.Service) {
			s.Slices[0].Endpoints = append(s.Slices[0].Endpoints, discovery.Endpoint{Ready: true})
		}, true, "1 without a unicast address"},
		{"a source range of /33", func(s *discovery.Service) {
			s.Type, s.LoadBalancerIPs, s.SourceRangesSet = discovery.TypeLoadBalancer, addrs("203.0.113.1"), true
			s.SourceRanges = []netip.Prefix{netip.PrefixFrom(addrs("10.0.0.0")[0], 33)}
		}, true, "no usable IPv4 range"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := good()
			test.breaks(s)
			plan := vip.Planner{}.Service(s, nil)
			state := vip.NewState(&vip.Node{}, nonNil(plan)...)
			v := state.Get(frontend(t, "10.96.0.7:80"))
			if survives := v != nil && len(v.Cluster) == 1; survives != test.survives {
				t.Errorf("the rest of the service is there: got %t, want %t", survives, test.survives)
			}
			if got := strings.Join(warnings(plan), "\n"); !strings.Contains(got, test.warning) || (got == "") != (test.warning == "") {
				t.Errorf("warnings: got %q, want %q", got, test.warning)
			}
		})
	}
}

// TestPlannerTransitions is P-02 and P-28: a service that becomes another kind
// leaves nothing behind, and one that was recreated is another one.
func TestPlannerTransitions(t *testing.T) {
	t.Parallel()
	before := "service a/a type=NodePort ips=10.0.0.1 ports=80->30080 created=2026-01-01T00:00:00Z"
	tests := []struct {
		name, after string
		want        []string
	}{
		{"to ClusterIP", "service a/a ips=10.0.0.1 ports=80->30080", []string{"10.0.0.1:80/TCP"}},
		{"to ExternalName", "service a/a type=ExternalName ips=10.0.0.1 ports=80->30080", nil},
		{"to headless", "service a/a headless ports=80", nil},
		{"another port and protocol", "service a/a ips=10.0.0.1 ports=81/UDP", []string{"10.0.0.1:81/UDP"}},
		{"recreated with another address", "service a/a ips=10.0.0.2 ports=80", []string{"10.0.0.2:80/TCP"}},
		{"taken by another proxy", "service a/a ips=10.0.0.1 ports=80 proxy=x", nil},
		{"deleted", "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			old, now := world(t, before), world(t, test.after)
			p := vip.Planner{}
			state := p.Next(p.Plan(old.Snapshot, old.Node), old.Snapshot, now.Snapshot, now.Node)
			if diff := cmp.Diff(test.want, frontends(state)); diff != "" {
				t.Errorf("frontends (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlannerNextWithoutChange(t *testing.T) {
	t.Parallel()
	w, p := world(t, "node n1 addrs=192.168.6.1\nservice a/a ips=10.0.0.1 ports=80"), vip.Planner{}
	state := p.Plan(w.Snapshot, w.Node)
	same := *w.Node
	if got := p.Next(state, w.Snapshot, w.Snapshot, &same); got != state {
		t.Error("nothing changed, and the state is another one")
	}
	moved := *w.Node
	moved.Name = "n2"
	got := p.Next(state, w.Snapshot, w.Snapshot, &moved)
	if got == state || got.Node() != &moved {
		t.Error("another node, and the state is the same")
	}
	for was, is := range vip.Changes(state, got) {
		t.Errorf("the node's name does not matter to this service, and it changed from %v to %v", was, is)
	}
}

// FuzzIncrementalPlan compares the plan that followed every change with the one
// that sees the end only.
func FuzzIncrementalPlan(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		churn, p := viptest.NewChurn(random), vip.Planner{}
		node := churn.Node()
		var state *vip.State
		var before *discovery.Snapshot
		for range 30 {
			if random.IntN(6) == 0 {
				node = churn.Node()
			}
			after := churn.Step()
			next := p.Next(state, before, after, node)
			checkSame(t, next, p.Plan(after, node))
			checkChanges(t, state, next)
			state, before = next, after
		}
		empty := p.Next(state, before, churn.Empty(), node)
		if empty.Len() != 0 || empty.String() != "" {
			t.Errorf("no services, and the state is not empty:\n%s", empty)
		}
	})
}

func checkSame(t *testing.T, incremental, full *vip.State) {
	t.Helper()
	if diff := cmp.Diff(full.String(), incremental.String()); diff != "" {
		t.Fatalf("incremental plan (-full +incremental):\n%s", diff)
	}
	if full.Len() != len(frontends(full)) || incremental.Len() != full.Len() {
		t.Fatalf("number of frontends: got %d and %d, want %d", incremental.Len(), full.Len(), len(frontends(full)))
	}
}

// checkChanges compares Changes with the naive difference.
func checkChanges(t *testing.T, before, after *vip.State) {
	t.Helper()
	want := map[vip.Frontend][2]*vip.VirtualServer{}
	if before != nil {
		for v := range before.All() {
			want[v.Frontend] = [2]*vip.VirtualServer{v, nil}
		}
	}
	for v := range after.All() {
		pair := want[v.Frontend]
		pair[1] = v
		want[v.Frontend] = pair
		if pair[0] == v {
			delete(want, v.Frontend)
		} else if pair[0].Equal(v) {
			t.Fatalf("%s means the same as before, and is another pointer", v)
		}
	}
	for was, is := range vip.Changes(before, after) {
		f := is
		if f == nil {
			f = was
		}
		if want[f.Frontend] != [2]*vip.VirtualServer{was, is} {
			t.Fatalf("changes: got %v -> %v", was, is)
		}
		delete(want, f.Frontend)
	}
	if len(want) != 0 {
		t.Fatalf("changes missing: %v", want)
	}
}

func world(t testing.TB, text string) viptest.World {
	t.Helper()
	w, err := viptest.ParseWorld(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func frontends(s *vip.State) []string {
	var list []string
	for v := range s.All() {
		list = append(list, v.Frontend.String())
	}
	return list
}

func frontend(t testing.TB, text string) vip.Frontend {
	t.Helper()
	f, err := vip.ParseFrontend(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func key(text string) discovery.Key {
	namespace, name, _ := strings.Cut(text, "/")
	return discovery.Key{Namespace: namespace, Name: name}
}

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func nonNil(p *vip.ServicePlan) []*vip.ServicePlan {
	if p == nil {
		return nil
	}
	return []*vip.ServicePlan{p}
}

func warnings(p *vip.ServicePlan) []string {
	if p == nil {
		return nil
	}
	return p.Warnings
}
