package vip

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"signpost/discovery"
)

// planning is the work on one service.
type planning struct {
	options Options
	service *discovery.Service
	node    *Node
	plan    *ServicePlan

	affinity  affinity
	scheduler string
}

// destination is an address of a service, in one family.
type destination struct {
	addr netip.Addr
	kind Kind

	restricted bool
	ranges     []netip.Prefix
}

func (b *planning) warn(format string, args ...any) {
	b.plan.Warnings = append(b.plan.Warnings, fmt.Sprintf(format, args...))
}

// all fills the plan: each port on each address, family by family (P-19).
func (b *planning) all() {
	if reason := badKey(b.service.Key); reason != "" {
		b.warn("metadata: %s", reason)
		return
	}
	b.affinity, b.scheduler = b.clientAffinity(), b.schedulerName()
	ports := b.usablePorts()
	addrs := b.usableAddresses()
	for _, v6 := range []bool{false, true} {
		own := addrs.family(v6)
		if len(own.cluster) == 0 || b.node.lacks(v6) {
			continue
		}
		b.family(v6, ports, b.destinations(v6, own))
	}
	b.warnEndpoints(addrs.cluster)
	b.healthCheck(addrs.cluster)
	b.sortServers()
}

// lacks reports whether the node is known not to have the family.
func (n *Node) lacks(v6 bool) bool { return len(n.Addrs) > 0 && len(family(n.Addrs, v6)) == 0 }

func (b *planning) family(v6 bool, ports []discovery.Port, destinations []destination) {
	for _, port := range ports {
		sets := b.endpointSets(port, v6)
		for _, d := range destinations {
			b.add(Frontend{Addr: d.addr, Port: port.Port, Protocol: port.Protocol}, port, d, sets)
		}
		if port.NodePort != 0 && b.hasNodePorts() {
			b.add(NodePortFrontend(v6, port.NodePort, port.Protocol), port, destination{kind: KindNodePort}, sets)
		}
	}
}

// hasNodePorts reports whether the type of the service lets its ports be node
// ports: what is left in the fields after a change of type does not count (P-28).
func (b *planning) hasNodePorts() bool {
	return b.service.Type == discovery.TypeNodePort || b.service.Type == discovery.TypeLoadBalancer
}

func (b *planning) add(f Frontend, port discovery.Port, d destination, sets endpointSets) {
	v := &VirtualServer{
		Frontend: f, Owner: b.service.Key, PortName: port.Name, Kind: d.kind, Created: b.service.Created,
		Affinity: b.affinity, Scheduler: b.scheduler, Restricted: d.restricted, SourceRanges: d.ranges,
		Routes: routes(d.kind, b.localPolicy(d.kind), b.node, sets.any),
	}
	for _, r := range v.Routes {
		if r.Set == LocalSet {
			v.Local = sets.local
		} else {
			v.Cluster = sets.cluster
		}
	}
	b.plan.Servers = append(b.plan.Servers, v)
}

// localPolicy reports whether traffic to addresses of the kind stays on the
// node. The external policy counts only where there can be external traffic (P-29).
func (b *planning) localPolicy(kind Kind) bool {
	s := b.service
	if !kind.External() {
		return s.InternalPolicy == discovery.PolicyLocal
	}
	return s.ExternalPolicy == discovery.PolicyLocal && (b.hasNodePorts() || len(s.ExternalIPs) > 0)
}

// sortServers puts the servers in order. Of two for one frontend (an external
// IP that is also the load balancer's, say) the stricter stays.
func (b *planning) sortServers() {
	slices.SortStableFunc(b.plan.Servers, func(x, y *VirtualServer) int {
		return cmp.Or(x.Frontend.Compare(y.Frontend), cmp.Compare(strictness[x.Kind], strictness[y.Kind]))
	})
	b.plan.Servers = slices.CompactFunc(b.plan.Servers, func(x, y *VirtualServer) bool { return x.Frontend == y.Frontend })
}

// strictness orders the kinds of one service that meet at one address: a
// load-balancer address can be closed by source ranges, an external IP can't.
var strictness = [...]int{KindClusterIP: 0, KindNodePort: 1, KindLoadBalancer: 2, KindExternalIP: 3}

// healthCheck fills in the health-check node port. It counts each local ready
// pod once, however many ports and families it has (F-09).
func (b *planning) healthCheck(clusterIPs []netip.Addr) {
	s := b.service
	if s.Type != discovery.TypeLoadBalancer || s.ExternalPolicy != discovery.PolicyLocal {
		return
	}
	if s.HealthCheckNodePort == 0 {
		b.warn("spec.healthCheckNodePort: none is allocated: a load balancer can't tell which nodes have endpoints")
		return
	}
	ready := map[netip.Addr]bool{}
	count := [2]int{}
	for _, e := range s.Endpoints {
		a := e.Addr.Unmap()
		if !e.Ready || !b.isLocal(e) || ready[a] {
			continue
		}
		ready[a] = true
		count[familyIndex(a.Is6())]++
	}
	h := HealthCheck{Port: s.HealthCheckNodePort}
	for _, a := range clusterIPs {
		h.LocalReady = max(h.LocalReady, count[familyIndex(a.Is6())])
	}
	b.plan.HealthCheck = h
}

func familyIndex(v6 bool) int {
	if v6 {
		return 1
	}
	return 0
}
