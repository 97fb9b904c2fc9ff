package vip

import (
	"net/netip"

	"signpost/discovery"
)

// Options is the part of the policy that whoever runs the node chooses. The
// zero value is kube-proxy's, with the refusals of P-27 and P-18.
type Options struct {
	// ProxyName makes this the proxy of exactly the services whose label
	// service.kubernetes.io/service-proxy-name has this value. Empty: of those
	// that don't have the label (P-01).
	ProxyName string

	// AllowExternalIPs, if not empty, is where spec.externalIPs must lie. What
	// lies there is allowed even if it is in a service or pod range or a
	// node's address; see [Planner] for what is refused otherwise (P-27).
	AllowExternalIPs []netip.Prefix

	// OpenUnusableRanges leaves a load-balancer address open to all when its
	// service lists source ranges and none of them is usable in the address's
	// family, as kube-proxy does. Otherwise it is closed (P-18).
	OpenUnusableRanges bool

	// Scheduler is the IPVS scheduler of virtual servers whose service asks for
	// none (I-14). Empty: the backend's.
	Scheduler string
}

// Planner turns services into virtual servers. All policy is here: no backend
// decides anything that a reader of a [State] could not predict.
//
// Without an allow list, it refuses external IPs that are in the node's
// service and pod ranges, or an address of a node; in any case those that are
// unspecified, loopback, link-local or multicast (P-27).
type Planner struct{ Options }

// Plan returns the state that a snapshot asks for on a node.
func (p Planner) Plan(snapshot *discovery.Snapshot, node *Node) *State {
	return p.Next(nil, nil, snapshot, node)
}

// Next brings a state up to date: prev was planned from before. It costs the
// services that changed, or all of them if the node changed. A nil prev plans
// everything. It returns prev itself if nothing that matters changed.
func (p Planner) Next(prev *State, before, after *discovery.Snapshot, node *Node) *State {
	if node == nil {
		node = &Node{}
	}
	if prev == nil || before == nil {
		prev, before = &State{node: node}, &discovery.Snapshot{}
	}
	e := prev.edit()
	replan := func(k discovery.Key, s *discovery.Service) { e.set(k, p.Service(s, e.next.node)) }
	if prev.node.Equal(node) {
		discovery.Diff(before.Services, after.Services, func(k discovery.Key, _, now *discovery.Service) { replan(k, now) })
		return e.state()
	}
	e.setNode(node)
	for k, s := range after.Services.All() {
		replan(k, s)
	}
	for k := range prev.services.All() {
		if _, exists := after.Services.Get(k); !exists {
			e.set(k, nil)
		}
	}
	return e.state()
}

// Service returns what one service asks of the dataplane on a node, and nil if
// it asks for nothing. It never fails: what can't be programmed is left out
// and named in the plan's warnings (P-25).
func (p Planner) Service(s *discovery.Service, node *Node) *ServicePlan {
	if s == nil || !p.Handles(s) {
		return nil
	}
	if node == nil {
		node = &Node{}
	}
	b := &planning{options: p.Options, service: s, node: node, plan: &ServicePlan{Owner: s.Key}}
	b.all()
	if len(b.plan.Servers)+len(b.plan.Warnings) == 0 && b.plan.HealthCheck.Port == 0 {
		return nil
	}
	return b.plan
}

// Labels that take a service away from the dataplane (P-01).
const headlessLabel = "service.kubernetes.io/headless"

// Handles reports whether a service is one for the dataplane at all: it is
// ours (P-01) and has an address of its own (P-02).
func (p Planner) Handles(s *discovery.Service) bool {
	if _, headless := s.Labels[headlessLabel]; headless {
		return false
	}
	ours := s.HasProxy == (p.ProxyName != "") && s.Proxy == p.ProxyName
	return ours && s.Kind == discovery.ClusterIP && s.Type != discovery.TypeExternalName && len(s.ClusterIPs) > 0
}
