package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// claim takes what the request names. A request of which one name can't be
// had gives back the others at once, for those that come after it.
func (a *Allocator) claim(j *job) {
	for i, ip := range j.next.ClusterIPs {
		if ip.IsValid() {
			a.claimClusterIP(j, i, ip)
		}
	}
	a.claimNodePorts(j)
	if hc := j.next.HealthCheckNodePort; hc != 0 {
		a.claimHealthCheck(j, hc)
	}
	if j.failed() {
		a.abandon(j)
		return
	}
	a.claimBalancer(j)
}

func (a *Allocator) claimClusterIP(j *job, i int, ip netip.Addr) {
	field, value := fmt.Sprintf("spec.clusterIPs[%d]", i), ip.String()
	owner, inRange := a.owner(clusterIP(ip))
	switch {
	case !inRange && a.serviceRange(FamilyOf(ip)) == "":
		j.fail(field, value, "this cluster is not configured for %s", FamilyOf(ip))
	case !inRange:
		j.fail(field, value, "failed to allocate IP %s: the provided IP is not in the valid range. "+
			"The range of valid IPs is %s", value, a.serviceRange(FamilyOf(ip)))
	case owner != "" && owner != j.req.Owner:
		j.fail(field, value, "failed to allocate IP %s: provided IP is already allocated to service %q", value, owner)
	case slices.Contains(j.next.ClusterIPs[:i], ip):
		j.fail(field, value, "must not be given twice")
	default:
		a.take(clusterIP(ip), j.req.Owner)
	}
}

// serviceRange is the service range of a family, as text; empty if there is none.
func (a *Allocator) serviceRange(f Family) string {
	for _, p := range a.services {
		if p.sameFamily(f == IPv6) {
			return p.prefix.String()
		}
	}
	return ""
}

func (a *Allocator) claimNodePorts(j *job) {
	type use struct {
		protocol string
		number   uint16
	}
	seen := map[use]bool{}
	for i, p := range j.req.Ports {
		number := j.next.NodePorts[p.Name]
		if number == 0 {
			continue
		}
		field := fmt.Sprintf("spec.ports[%d].nodePort", i)
		this := use{protocol: strings.ToUpper(p.Protocol), number: number}
		if seen[this] {
			j.fail(field, int(number), "must not be given twice for protocol %s", this.protocol)
		}
		seen[this] = true
		a.claimPort(j, field, number)
	}
}

func (a *Allocator) claimPort(j *job, field string, number uint16) {
	owner, inRange := a.owner(nodePort(number))
	switch {
	case !inRange:
		j.fail(field, int(number), "provided port is not in the valid range. The range of valid ports is %s", a.cfg.NodePorts)
	case owner != "" && owner != j.req.Owner:
		j.fail(field, int(number), "provided port is already allocated to service %q", owner)
	default:
		a.take(nodePort(number), j.req.Owner)
	}
}

func (a *Allocator) claimHealthCheck(j *job, number uint16) {
	const field = "spec.healthCheckNodePort"
	for i, p := range j.req.Ports {
		if j.next.NodePorts[p.Name] == number {
			j.fail(field, int(number), "provided port is already allocated to spec.ports[%d] of this service", i)
			return
		}
	}
	a.claimPort(j, field, number)
}

// claimBalancer takes the load-balancer addresses that are asked for by name
// and are free; they replace those that the service had of that family.
func (a *Allocator) claimBalancer(j *job) {
	for _, ip := range j.req.Balancer.Named {
		ip = ip.Unmap()
		owner, inPool := a.owner(balancerIP(ip))
		switch {
		case !inPool:
			if len(a.balancers) > 0 && j.req.Balancer.Allocate {
				j.warn(j.req.Balancer.Field, ip.String(), "is not in the load-balancer pool %s", a.poolNames())
			}
		case owner != "" && owner != j.req.Owner:
			j.warn(j.req.Balancer.Field, ip.String(), "is already allocated to service %q", owner)
		default:
			a.replaceBalancerIP(j, ip)
		}
	}
}

func (a *Allocator) replaceBalancerIP(j *job, ip netip.Addr) {
	a.take(balancerIP(ip), j.req.Owner)
	j.next.LoadBalancerIPs = slices.DeleteFunc(j.next.LoadBalancerIPs, func(had netip.Addr) bool {
		replaced := had != ip && FamilyOf(had) == FamilyOf(ip) && !slices.Contains(j.req.Balancer.Named, had)
		if replaced {
			a.freeIfOwned(balancerIP(had), j.req.Owner)
		}
		return replaced || had == ip
	})
	j.next.LoadBalancerIPs = append(j.next.LoadBalancerIPs, ip)
}

func (a *Allocator) poolNames() string {
	names := make([]string, len(a.balancers))
	for i, p := range a.balancers {
		names[i] = p.prefix.String()
	}
	return strings.Join(names, ", ")
}
