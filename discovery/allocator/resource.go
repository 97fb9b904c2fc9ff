package allocator

import (
	"maps"
	"net/netip"
	"slices"
)

// resource is one thing that can be owned: a cluster IP, a load-balancer
// address or a port.
type resource struct {
	addr     netip.Addr // invalid: a port
	balancer bool
	port     uint16
}

func clusterIP(a netip.Addr) resource  { return resource{addr: a} }
func balancerIP(a netip.Addr) resource { return resource{addr: a, balancer: true} }
func nodePort(p uint16) resource       { return resource{port: p} }

// resources lists what an assignment owns, each once.
func (a Assignment) resources() []resource {
	list := make([]resource, 0, len(a.ClusterIPs)+len(a.LoadBalancerIPs)+len(a.NodePorts)+1)
	add := func(r resource) {
		if (r.port != 0 || r.addr.IsValid()) && !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	for _, ip := range a.ClusterIPs {
		add(clusterIP(ip))
	}
	for _, ip := range a.LoadBalancerIPs {
		add(balancerIP(ip))
	}
	for _, name := range slices.Sorted(maps.Keys(a.NodePorts)) {
		add(nodePort(a.NodePorts[name]))
	}
	add(nodePort(a.HealthCheckNodePort))
	return list
}

// find returns the space that holds a resource, and its number there.
func (a *Allocator) find(r resource) (*space, uint64, bool) {
	if !r.addr.IsValid() {
		first, last := a.cfg.NodePorts.First, a.cfg.NodePorts.Last
		return a.ports, uint64(r.port) - uint64(first), r.port >= first && r.port <= last
	}
	pools := a.services
	if r.balancer {
		pools = a.balancers
	}
	for _, p := range pools {
		if n, ok := p.number(r.addr); ok {
			return p.space, n, true
		}
	}
	return nil, 0, false
}

// owner returns who owns a resource, and whether it lies in a range at all.
func (a *Allocator) owner(r resource) (string, bool) {
	s, n, ok := a.find(r)
	if !ok {
		return "", false
	}
	return s.owners[n], true
}

// take gives a free resource to an owner and reports whether that went.
func (a *Allocator) take(r resource, owner string) bool {
	s, n, ok := a.find(r)
	if !ok || s.owners[n] != "" {
		return ok && s.owners[n] == owner
	}
	s.take(n, owner)
	return true
}

func (a *Allocator) freeIfOwned(r resource, owner string) {
	if s, n, ok := a.find(r); ok && s.owners[n] == owner {
		s.free(n)
	}
}
