package manifest

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"signpost/discovery"
)

func slice(name, service, addr string, labels ...string) string {
	labels = append(labels, "kubernetes.io/service-name: "+service)
	return "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: " + name + ", labels: {" + strings.Join(labels, ", ") +
		"}}\naddressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: [" + addr + "]}]\n"
}

// TestEndpoints: where the endpoints of a service come from.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	const byController = "endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io"
	endpoints := "---\napiVersion: v1\nkind: Endpoints\nmetadata: {name: web}\nsubsets: [{addresses: [{ip: 10.9.0.9}], ports: [{port: 80}]}]\n"
	selecting := service80("web", "selector: {app: x}")
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"E-01 pods by selector", selecting + podAt("a", "x", "10.9.0.1", "True") + podAt("b", "other", "10.9.0.2", "True"), []string{"10.9.0.1"}},
		{"E-03 a pod that is not ready", selecting + podAt("a", "x", "10.9.0.1", "False"), nil},
		{"E-03 publishNotReadyAddresses", service80("web", "selector: {app: x}", "publishNotReadyAddresses: true") + podAt("a", "x", "10.9.0.1", "False"), []string{"10.9.0.1"}},
		{"E-01 an empty selector takes all", service80("web", "selector: {}") + podAt("a", "x", "10.9.0.1", "True") + podAt("b", "other", "10.9.0.2", "True"), []string{"10.9.0.1", "10.9.0.2"}},
		{"E-17 Endpoints by hand", service80("web") + endpoints, []string{"10.9.0.9"}},
		{"E-21 Endpoints of a service with a selector do not count", selecting + endpoints, nil},
		{"a slice by hand", service80("web") + slice("s", "web", "10.9.0.3"), []string{"10.9.0.3"}},
		{"a slice by hand beside pods", selecting + slice("s", "web", "10.9.0.3") + podAt("a", "x", "10.9.0.1", "True"), []string{"10.9.0.1", "10.9.0.3"}},
		{"a controller's slice beside pods is old", selecting + slice("s", "web", "10.9.0.3", byController) + podAt("a", "x", "10.9.0.1", "True"), []string{"10.9.0.1"}},
		{"a controller's slice without pods", selecting + slice("s", "web", "10.9.0.3", byController), []string{"10.9.0.3"}},
		{"H21 a slice of another service", service80("web") + slice("s", "other", "10.9.0.3"), nil},
		{"E-01 ExternalName has none", service80("web", "type: ExternalName", "externalName: x.example.", "selector: {app: x}") + podAt("a", "x", "10.9.0.1", "True"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t)
			f.write("a.yaml", c.text)
			f.start()
			got := readyAddrs(f.service("web", "there", there))
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v; problems %v", got, c.want, f.source.Problems())
			}
		})
	}
}

// TestTouches: E-18: a change reaches the services that it concerns, and
// leaves the others the same pointer.
func TestTouches(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("s.yaml", service80("one", "selector: {app: one}")+service80("two", "selector: {app: two}")+service80("hand"))
	f.write("p.yaml", podAt("p", "one", "10.9.0.1", "True"))
	f.start()
	f.service("one", "with its pod", readyAt("10.9.0.1"))
	two := f.service("two", "there", there)

	f.write("p.yaml", podAt("p", "one", "10.9.0.2", "True"))
	f.service("one", "with the pod's new address", readyAt("10.9.0.2"))
	if f.service("two", "there", there) != two {
		t.Error("a service without a change was made anew")
	}
	f.write("p.yaml", podAt("p", "two", "10.9.0.2", "True"))
	f.service("two", "with the pod that was relabelled", readyAt("10.9.0.2"))
	f.service("one", "without it", readyAt())

	f.write("n.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-1, labels: {topology.kubernetes.io/zone: z1}}\n")
	f.service("two", "in the node's zone", func(s *discovery.Service) bool {
		return len(s.Slices) == 1 && len(s.Slices[0].Endpoints) == 1 && s.Slices[0].Endpoints[0].Zone == "z1"
	})
	f.write("h.yaml", slice("h", "hand", "10.9.0.7"))
	f.service("hand", "with its slice", readyAt("10.9.0.7"))
	f.write("h.yaml", slice("h", "one", "10.9.0.7"))
	f.service("one", "with the slice that moved", readyAt("10.9.0.7"))
	f.service("hand", "without it", readyAt())

	f.write("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: empty}\n")
	f.wait("namespace", func(s *discovery.Snapshot) bool { return s.HasNamespace("empty") && s.Nodes["node-1"] != nil })
	for _, name := range []string{"ns.yaml", "n.yaml", "p.yaml", "h.yaml"} {
		f.write(name, "# nothing\n")
	}
	f.wait("all gone", func(s *discovery.Snapshot) bool {
		return !s.HasNamespace("empty") && len(s.Nodes) == 0 && s.Pods.Len() == 0
	})
	f.service("two", "without pods", readyAt())
}

func TestLoadBalancerStatus(t *testing.T) {
	t.Parallel()
	pool := func(c *Config) { c.LoadBalancerPools = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} }
	status := "status: {loadBalancer: {ingress: [{ip: 203.0.113.1}, {hostname: lb.example}]}}\n"
	for _, c := range []struct {
		name   string
		text   string
		config []func(*Config)
		want   []string
	}{
		{"from the pool", service80("web", "type: LoadBalancer"), []func(*Config){pool}, []string{"203.0.113.1"}},
		{"by name", service80("web", "type: LoadBalancer", "loadBalancerIP: 203.0.113.77"), []func(*Config){pool}, []string{"203.0.113.77"}},
		{"without a pool it is pending", service80("web", "type: LoadBalancer"), nil, nil},
		{"of another class it is pending", service80("web", "type: LoadBalancer", "loadBalancerClass: a.b/c"), []func(*Config){pool}, nil},
		{"a status in the manifest counts", service80("web", "type: LoadBalancer") + status, []func(*Config){pool}, []string{"203.0.113.1", "lb.example"}},
		{"and is nobody else's", service80("a-first", "type: LoadBalancer") + service80("web", "type: LoadBalancer") + status, []func(*Config){pool}, []string{"203.0.113.1", "lb.example"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, c.config...)
			f.write("a.yaml", c.text)
			f.start()
			f.noProblems()
			if got := f.service("web", "there", there).Ingress; !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if first, ok := f.store.Current().Services.Get(key("a-first")); ok && !slices.Equal(first.Ingress, []string{"203.0.113.2"}) {
				t.Errorf("the other has %v", first.Ingress)
			}
		})
	}
}

func TestObjectsAsServed(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("a.yaml", service80("web", "selector: {app: x}", "type: NodePort")+podAt("b", "x", "10.9.0.1", "True")+podAt("a", "other", "10.9.0.2", "True"))
	f.start()
	svc := f.source.Service(key("web"))
	if svc == nil || svc.Spec.ClusterIP == "" || svc.Spec.Ports[0].NodePort == 0 || svc.Spec.Ports[0].Protocol != "TCP" {
		t.Errorf("got %+v", svc)
	}
	pods := f.source.Pods("default")
	if len(pods) != 2 || pods[0].Name != "a" || f.source.Pod(key("b")) != pods[1] {
		t.Errorf("got %v", pods)
	}
	if s := f.source.Slices(key("web")); len(s) != 1 || len(s[0].Endpoints) != 1 {
		t.Errorf("got %v", s)
	}
	if f.source.Service(key("none")) != nil || f.source.Pod(key("none")) != nil || f.source.Slices(key("none")) != nil || f.source.Node("none") != nil {
		t.Error("something is there that isn't")
	}
	if got, want := f.source.Stats(), (Stats{Files: 1, Objects: 3, Services: 1, Pods: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestDualStack: A-08, B76: a service of two families, and one whose second
// address is taken.
func TestDualStack(t *testing.T) {
	t.Parallel()
	f := newFolder(t, func(c *Config) {
		c.ServiceCIDRs = append(c.ServiceCIDRs, netip.MustParsePrefix("fd00:96::/108"))
	})
	const dual = "ipFamilyPolicy: RequireDualStack"
	f.write("a.yaml", service80("web", dual, "clusterIPs: [10.96.3.3, 'fd00:96::3']"))
	f.write("b.yaml", service80("late", dual, "clusterIPs: [10.96.3.4, 'fd00:96::3']"))
	f.write("c.yaml", service80("free", "clusterIP: 10.96.3.4")+service80("auto", dual))
	f.start()
	f.has("web", "free", "auto")
	f.problem("b.yaml:8: Service \"default/late\": spec.clusterIPs[1]")
	if got := f.service("auto", "there", there).ClusterIPs; len(got) != 2 || !got[0].Is4() || !got[1].Is6() {
		t.Errorf("got %v", got)
	}
}
