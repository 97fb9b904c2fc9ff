package allocator

import (
	"fmt"
	"net/netip"
	"slices"
)

// pick gives what the request leaves open.
func (a *Allocator) pick(j *job) {
	if j.failed() {
		return
	}
	for i, family := range j.req.Families {
		if !j.next.ClusterIPs[i].IsValid() {
			a.pickClusterIP(j, i, family)
		}
	}
	for i, p := range j.req.Ports {
		if p.Allocate && j.next.NodePorts[p.Name] == 0 {
			a.pickNodePort(j, i)
		}
	}
	if j.req.HealthCheck && j.next.HealthCheckNodePort == 0 {
		j.next.HealthCheckNodePort = a.pickPort(j, "spec.healthCheckNodePort")
	}
	if j.failed() {
		a.abandon(j)
		return
	}
	if j.req.Balancer.Allocate {
		a.pickBalancer(j)
	}
}

func (a *Allocator) pickClusterIP(j *job, i int, family Family) {
	at := slices.IndexFunc(a.services, func(p *pool) bool { return p.sameFamily(family == IPv6) })
	if at < 0 {
		j.fail(fmt.Sprintf("spec.ipFamilies[%d]", i), family.String(), "not configured on this cluster")
		return
	}
	p := a.services[at]
	n, ok := p.space.pick()
	if !ok {
		j.fail(fmt.Sprintf("spec.clusterIPs[%d]", i), nil, "failed to allocate a serviceIP: range %s is full", p.prefix)
		return
	}
	p.space.take(n, j.req.Owner)
	j.next.ClusterIPs[i] = p.addr(n)
}

// pickNodePort gives ports of one number but different protocols the same
// node port.
func (a *Allocator) pickNodePort(j *job, i int) {
	p := j.req.Ports[i]
	for _, other := range j.req.Ports {
		shared := j.next.NodePorts[other.Name]
		if shared != 0 && other.Port == p.Port && !j.usesNodePort(p.Protocol, shared) {
			j.next.NodePorts[p.Name] = shared
			return
		}
	}
	if number := a.pickPort(j, fmt.Sprintf("spec.ports[%d].nodePort", i)); number != 0 {
		j.next.NodePorts[p.Name] = number
	}
}

func (a *Allocator) pickPort(j *job, field string) uint16 {
	n, ok := a.ports.pick()
	if !ok {
		j.fail(field, nil, "failed to allocate a nodePort: range %s is full", a.cfg.NodePorts)
		return 0
	}
	a.ports.take(n, j.req.Owner)
	return a.cfg.NodePorts.First + uint16(n)
}

// pickBalancer gives one address of each family that has a pool and of which
// the service has none yet.
func (a *Allocator) pickBalancer(j *job) {
	for _, family := range j.req.Families {
		has := slices.ContainsFunc(j.next.LoadBalancerIPs, func(ip netip.Addr) bool { return FamilyOf(ip) == family })
		if has || a.pickBalancerIP(j, family) {
			continue
		}
		if slices.ContainsFunc(a.balancers, func(p *pool) bool { return p.sameFamily(family == IPv6) }) {
			j.warn("status.loadBalancer", nil, "failed to allocate an address: load-balancer pool %s is full", a.poolNames())
		}
	}
}

func (a *Allocator) pickBalancerIP(j *job, family Family) bool {
	for _, p := range a.balancers {
		if !p.sameFamily(family == IPv6) {
			continue
		}
		if n, ok := p.space.pick(); ok {
			p.space.take(n, j.req.Owner)
			j.next.LoadBalancerIPs = append(j.next.LoadBalancerIPs, p.addr(n))
			return true
		}
	}
	return false
}
