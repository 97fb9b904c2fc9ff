package vip_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// gated is a controller with a gate behind it, in a synctest bubble.
type gated struct {
	*rig
	gate *vip.Gate
}

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{}
	g.rig = newRig(t, func(c *vip.Config) {
		c.Before = func(ctx context.Context, revision uint64) { g.gate.Passed(ctx, revision) }
	})
	g.gate = vip.NewGate(vip.GateConfig{Desired: g.store, Status: g.controller})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- g.gate.Run(ctx) }()
	stopController := g.stop
	g.stop = func() {
		stopController()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("running the gate: %v", err)
		}
	}
	t.Cleanup(func() { cancel() })
	return g
}

// names lists the visible services with their cluster addresses.
func (g *gated) names() map[string][]string {
	visible := map[string][]string{}
	for k, s := range g.gate.Visible().Current().Services.All() {
		visible[k.String()] = []string{}
		for _, a := range s.ClusterIPs {
			visible[k.String()] = append(visible[k.String()], a.String())
		}
	}
	return visible
}

func (g *gated) expect(t *testing.T, when string, want map[string][]string) {
	t.Helper()
	if diff := cmp.Diff(want, g.names()); diff != "" {
		t.Errorf("visible %s (-want +got):\n%s", when, diff)
	}
}

func (g *gated) get(name string) *discovery.Service {
	s, _ := g.gate.Visible().Current().Services.Get(key(name))
	return s
}

var errKernel = errors.New("no memory")

func allFail(_, _ *vip.State) error { return errKernel }

// failing lets all kernel operations on some frontends fail.
func failing(t *testing.T, texts ...string) func(viptest.Operation) error {
	return func(op viptest.Operation) error {
		for _, text := range texts {
			if op.Frontend == frontend(t, text) {
				return errKernel
			}
		}
		return nil
	}
}

func TestGateNewServices(t *testing.T) {
	t.Parallel()
	bubble(t, "a new name appears after its rules, the very same pointer", func(t *testing.T) {
		g := newGated(t)
		g.put(t, "service a/a ips=10.0.0.1 ports=80")
		wait(time.Second)
		g.backend.set(nil, true)
		g.put(t, "service a/b ips=10.0.0.2 ports=80")
		g.expect(t, "while the apply runs", map[string][]string{"a/a": {"10.0.0.1"}})
		g.backend.set(nil, false)
		wait(3 * time.Minute)
		g.expect(t, "after it", map[string][]string{"a/a": {"10.0.0.1"}, "a/b": {"10.0.0.2"}})
		if s, _ := g.store.Current().Services.Get(key("a/b")); g.get("a/b") != s {
			t.Error("the visible service is a copy")
		}
	})
	bubble(t, "services without frontends don't wait", func(t *testing.T) {
		g := newGated(t)
		g.put(t, "service a/a ips=10.0.0.1 ports=80")
		g.backend.set(nil, true)
		g.put(t, "service a/stuck ips=10.0.0.2 ports=80")
		g.put(t, "service a/headless headless ports=80\nservice a/alias type=ExternalName\nservice a/foreign ips=10.0.0.3 ports=80 proxy=x")
		g.expect(t, "while an apply hangs", map[string][]string{"a/a": {"10.0.0.1"}, "a/headless": {}, "a/alias": {}, "a/foreign": {"10.0.0.3"}})
	})
	bubble(t, "what planning leaves out is not waited for", func(t *testing.T) {
		g := newGated(t)
		g.node.Set(&vip.Node{Name: "n1", Addrs: addrs("192.168.6.1")})
		g.put(t, "service a/dual ips=10.0.0.1,fd00::1 ports=80,0\nservice a/portless ips=10.0.0.2")
		wait(time.Second)
		g.expect(t, "on a node without IPv6", map[string][]string{"a/dual": {"10.0.0.1", "fd00::1"}, "a/portless": {"10.0.0.2"}})
	})
	bubble(t, "P-25 a service whose frontend fails is held back, alone", func(t *testing.T) {
		g := newGated(t)
		g.backend.FailWith(failing(t, "10.0.0.1:81"))
		g.put(t, "service a/bad ips=10.0.0.1 ports=80,81\nservice a/good ips=10.0.0.2 ports=80")
		wait(time.Second)
		g.expect(t, "while one frontend fails", map[string][]string{"a/good": {"10.0.0.2"}})
		g.backend.FailWith(nil)
		wait(time.Minute)
		g.expect(t, "after that", map[string][]string{"a/bad": {"10.0.0.1"}, "a/good": {"10.0.0.2"}})
	})
	bubble(t, "P-26 whose address is another's is not visible", func(t *testing.T) {
		g := newGated(t)
		g.put(t, "service a/a ips=10.0.0.1 ports=80\nservice a/b ips=10.0.0.1 ports=80")
		wait(time.Second)
		g.expect(t, "with two owners", map[string][]string{"a/a": {"10.0.0.1"}})
		g.remove("a/a")
		wait(time.Second)
		g.expect(t, "after the winner went", map[string][]string{"a/b": {"10.0.0.1"}})
	})
}

func TestGateVisibleServices(t *testing.T) {
	t.Parallel()
	bubble(t, "endpoints pass at once, also while the dataplane hangs", func(t *testing.T) {
		g := newGated(t)
		g.put(t, "service a/a ips=10.0.0.1 ports=80")
		g.backend.set(nil, true)
		g.put(t, "service a/a ips=10.0.0.1 ports=80\nslice a ports=8080\nendpoint 172.16.0.1")
		if s := g.get("a/a"); s == nil || len(s.Slices) != 1 {
			t.Errorf("visible: got %+v, want the new endpoints", s)
		}
	})
	bubble(t, "a second address and a new port join when they work", func(t *testing.T) {
		g := newGated(t)
		g.put(t, "service a/a ips=10.0.0.1 ports=80")
		g.backend.FailWith(failing(t, "[fd00::1]:80", "[fd00::1]:81", "10.0.0.1:81"))
		g.put(t, "service a/a ips=10.0.0.1,fd00::1 ports=80,81")
		wait(20 * time.Millisecond)
		g.expect(t, "while the new parts fail", map[string][]string{"a/a": {"10.0.0.1"}})
		if ports := g.get("a/a").Ports; len(ports) != 1 {
			t.Errorf("visible ports: got %v, want the old one", ports)
		}
		g.backend.FailWith(nil)
		wait(time.Minute)
		if s, _ := g.store.Current().Services.Get(key("a/a")); g.get("a/a") != s {
			t.Error("not visible as it is after everything works")
		}
	})
	bubble(t, "P-28 another address is another service: gone, then back", func(t *testing.T) {
		g := newGated(t)
		g.put(t, "service a/a ips=10.0.0.1 ports=80")
		g.backend.set(nil, true)
		g.put(t, "service a/a ips=10.0.0.2 ports=80")
		g.expect(t, "before the new rules", map[string][]string{})
		g.backend.set(nil, false)
		wait(3 * time.Minute)
		g.expect(t, "after them", map[string][]string{"a/a": {"10.0.0.2"}})
	})
	bubble(t, "a deleted name leaves before its rules", func(t *testing.T) {
		g := newGated(t)
		g.put(t, "service a/a ips=10.0.0.1 ports=80")
		wait(time.Second)
		g.backend.set(func(_, want *vip.State) error {
			if want.Len() == 0 && g.get("a/a") != nil {
				t.Error("the rules go while the name is there")
			}
			return nil
		}, false)
		g.remove("a/a")
		wait(time.Second)
		g.expect(t, "after the deletion", map[string][]string{})
		if n := len(g.backend.Frontends()); n != 0 {
			t.Errorf("frontends: got %d, want 0", n)
		}
	})
	bubble(t, "what is visible stays while the dataplane fails as a whole", func(t *testing.T) {
		g := newGated(t)
		g.put(t, "service a/a ips=10.0.0.1 ports=80")
		g.backend.set(allFail, false)
		g.put(t, "service a/b ips=10.0.0.2 ports=80")
		wait(10 * time.Minute)
		g.expect(t, "while it fails", map[string][]string{"a/a": {"10.0.0.1"}})
		g.remove("a/a")
		g.expect(t, "after a deletion while it fails", map[string][]string{})
	})
}

func TestGateSynced(t *testing.T) {
	t.Parallel()
	synced := func(g *gated) bool { return g.gate.Visible().Current().Synced }
	bubble(t, "after the first round, which may be partial", func(t *testing.T) {
		g := newGated(t)
		wait(time.Hour)
		if synced(g) {
			t.Error("synced before the source is")
		}
		g.backend.FailWith(failing(t, "10.0.0.1:80"))
		g.put(t, "service a/bad ips=10.0.0.1 ports=80\nservice a/good ips=10.0.0.2 ports=80")
		if !synced(g) {
			t.Error("not synced after a partial round")
		}
	})
	bubble(t, "after the limit if the dataplane does not come up, and then everything is shown", func(t *testing.T) {
		g := newGated(t)
		g.backend.set(allFail, false)
		g.put(t, "service a/a ips=10.0.0.1 ports=80")
		wait(29 * time.Second)
		if synced(g) {
			t.Error("synced before the limit")
		}
		wait(2 * time.Second)
		if !synced(g) {
			t.Error("not synced after the limit")
		}
		g.expect(t, "after the limit", map[string][]string{"a/a": {"10.0.0.1"}})
		g.backend.set(nil, false)
		wait(time.Minute)
		g.backend.set(allFail, false)
		g.put(t, "service a/b ips=10.0.0.2 ports=80")
		g.expect(t, "gated again once the dataplane has come up", map[string][]string{"a/a": {"10.0.0.1"}})
	})
}

func TestGatePassesTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		g.backend.set(nil, true)
		g.store.Update(func(tx *discovery.Tx) {
			tx.PutPod(&discovery.Pod{Key: key("a/pod")})
			tx.PutNode(&discovery.Node{Name: "n1"})
			tx.PutNamespace("b")
			tx.PutServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")})
		})
		synctest.Wait()
		now := g.gate.Visible().Current()
		if now.Pods.Len() != 1 || len(now.Nodes) != 1 || !now.HasNamespace("b") || len(now.ServiceCIDRs) != 1 {
			t.Errorf("visible: got %d pods, %d nodes, namespaces %v, ranges %v", now.Pods.Len(), len(now.Nodes), now.Namespaces, now.ServiceCIDRs)
		}
		for _, team := range []string{"blue", "red"} { // namespace_labels looks at them
			g.store.Update(func(tx *discovery.Tx) { tx.PutNamespaceLabels("b", map[string]string{"team": team}) })
			synctest.Wait()
			if got := g.gate.Visible().Current().NamespaceLabels["b"]["team"]; got != team {
				t.Errorf("label of the namespace: got %q, want %q", got, team)
			}
		}
		g.store.Update(func(tx *discovery.Tx) {
			tx.DeletePod(key("a/pod"))
			tx.DeleteNode("n1")
			tx.DeleteNamespace("b")
		})
		synctest.Wait()
		now = g.gate.Visible().Current()
		if now.Pods.Len()+len(now.Nodes)+len(now.Namespaces) != 0 {
			t.Errorf("visible after the deletion: got %+v", now)
		}
	})
}

// TestGateUnderFaults: at no moment is a name visible whose frontends do not
// answer, whatever fails; and in the end everything is.
func TestGateUnderFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		random := viptest.Rand(t)
		faults := viptest.NewFaults(t, viptest.DefaultFaultRate)
		g.backend.FailWith(faults.Operation)
		churn := viptest.NewChurn(random)
		before := &discovery.Snapshot{}
		for range 150 {
			after := churn.Step()
			g.store.Update(func(tx *discovery.Tx) {
				discovery.Diff(before.Services, after.Services, func(k discovery.Key, _, now *discovery.Service) {
					if now == nil {
						tx.DeleteService(k)
						return
					}
					tx.PutService(now)
				})
				tx.MarkSynced()
			})
			before = after
			wait(time.Duration(random.IntN(30)) * time.Millisecond)
			checkVisibleWorks(t, g)
		}
		faults.Stop()
		wait(2 * time.Minute)
		state := g.controller.Status().Desired
		for k, s := range g.store.Current().Services.All() {
			mine := !slices.ContainsFunc(servers(state.Plan(k)), func(v *vip.VirtualServer) bool {
				return v.Kind == vip.KindClusterIP && state.Get(v.Frontend) != v
			})
			if got, _ := g.gate.Visible().Current().Services.Get(k); mine != (got == s) {
				t.Errorf("%s: has all its addresses: %t, visible: %t", k, mine, got == s)
			}
		}
	})
}

// checkVisibleWorks asks the kernel for each cluster address that DNS would
// give out. Who owns it is another matter: a service that lost an address to
// another keeps its name until that is resolved.
func checkVisibleWorks(t *testing.T, g *gated) {
	t.Helper()
	there := g.backend.Frontends()
	state := g.controller.Status().Desired
	if state == nil {
		return
	}
	for k, s := range g.gate.Visible().Current().Services.All() {
		for _, v := range servers(state.Plan(k)) {
			if v.Kind != vip.KindClusterIP || !slices.Contains(s.ClusterIPs, v.Frontend.Addr) {
				continue
			}
			if !slices.Contains(there, v.Frontend) && slices.ContainsFunc(s.Ports, func(p discovery.Port) bool { return p.Port == v.Frontend.Port && p.Protocol == v.Frontend.Protocol }) {
				t.Errorf("%s is visible, and the kernel does not have %s", k, v.Frontend)
			}
		}
	}
}

func servers(p *vip.ServicePlan) []*vip.VirtualServer {
	if p == nil {
		return nil
	}
	return p.Servers
}
