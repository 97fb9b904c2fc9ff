package allocator

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// job is one request on its way through the steps of a batch.
type job struct {
	req  *Request
	res  *Result
	old  Assignment
	next Assignment // zero values are still to be picked
}

func (j *job) fail(field string, value any, reason string, args ...any) {
	j.res.Errors = append(j.res.Errors, &FieldError{Field: field, Value: value, Reason: fmt.Sprintf(reason, args...)})
}

func (j *job) warn(field string, value any, reason string, args ...any) {
	j.res.Warnings = append(j.res.Warnings, &FieldError{Field: field, Value: value, Reason: fmt.Sprintf(reason, args...)})
}

func (j *job) failed() bool { return len(j.res.Errors) > 0 }

// settle fills in what is asked for by name, and for the rest what the
// service owns already.
func (a *Allocator) settle(j *job) {
	a.settleClusterIPs(j)
	a.settleNodePorts(j)
	if j.req.HealthCheck {
		j.next.HealthCheckNodePort = j.req.HealthCheckNodePort
		kept := a.stillOwnedPort(j, j.old.HealthCheckNodePort)
		if j.next.HealthCheckNodePort == 0 && !slices.Contains(slices.Collect(maps.Values(j.next.NodePorts)), kept) {
			j.next.HealthCheckNodePort = kept
		}
	}
	if j.req.Balancer.Allocate || len(j.req.Balancer.Named) > 0 {
		j.next.LoadBalancerIPs = slices.DeleteFunc(slices.Clone(j.old.LoadBalancerIPs), func(ip netip.Addr) bool {
			owner, _ := a.owner(balancerIP(ip))
			return owner != j.req.Owner || !slices.Contains(j.req.Families, FamilyOf(ip))
		})
	}
}

func (a *Allocator) settleClusterIPs(j *job) {
	j.next.ClusterIPs = make([]netip.Addr, len(j.req.Families))
	for i, family := range j.req.Families {
		if i < len(j.req.ClusterIPs) && j.req.ClusterIPs[i].IsValid() {
			j.next.ClusterIPs[i] = j.req.ClusterIPs[i].Unmap()
			continue
		}
		for _, ip := range j.old.ClusterIPs {
			if owner, _ := a.owner(clusterIP(ip)); FamilyOf(ip) == family && owner == j.req.Owner {
				j.next.ClusterIPs[i] = ip
			}
		}
	}
}

// settleNodePorts goes by the ports' names, as an API server does on an update
// that leaves the node ports out. A remembered number never collides with one
// that the same protocol has by name.
func (a *Allocator) settleNodePorts(j *job) {
	j.next.NodePorts = map[string]uint16{}
	for _, p := range j.req.Ports {
		if p.NodePort != 0 {
			j.next.NodePorts[p.Name] = p.NodePort
		}
	}
	for _, p := range j.req.Ports {
		if p.NodePort != 0 || !p.Allocate {
			continue
		}
		kept := a.stillOwnedPort(j, j.old.NodePorts[p.Name])
		if kept != 0 && kept != j.req.HealthCheckNodePort && !j.usesNodePort(p.Protocol, kept) {
			j.next.NodePorts[p.Name] = kept
		}
	}
}

// usesNodePort reports whether a port of that protocol has the node port already.
func (j *job) usesNodePort(protocol string, number uint16) bool {
	return slices.ContainsFunc(j.req.Ports, func(p PortRequest) bool {
		return strings.EqualFold(p.Protocol, protocol) && j.next.NodePorts[p.Name] == number
	})
}

func (a *Allocator) stillOwnedPort(j *job, number uint16) uint16 {
	if owner, _ := a.owner(nodePort(number)); number == 0 || owner != j.req.Owner {
		return 0
	}
	return number
}

// shed gives back what the service does not want any more, before anyone in
// the batch claims: so two services can swap.
func (a *Allocator) shed(j *job) {
	keep := j.next.resources()
	for _, r := range j.old.resources() {
		if !slices.Contains(keep, r) {
			a.freeIfOwned(r, j.req.Owner)
		}
	}
}

// finish ends a job: granted, or put back.
func (a *Allocator) finish(j *job) {
	now := j.next
	if j.failed() {
		now = a.restore(j)
	}
	if len(now.NodePorts) == 0 {
		now.NodePorts = nil
	}
	if len(now.ClusterIPs) == 0 {
		now.ClusterIPs = nil
	}
	if len(now.LoadBalancerIPs) == 0 {
		now.LoadBalancerIPs = nil
	}
	j.res.Assignment, j.res.Changed = now, !now.equal(j.old)
	if j.res.Changed {
		a.record(j.req.Owner, now)
	}
}

// restore gives a refused job back what it had. If someone got a part of that
// in the meantime, it goes without all of it. What lies in no range (the state
// file may remember such) nobody can have taken.
func (a *Allocator) restore(j *job) Assignment {
	owned := slices.DeleteFunc(j.old.resources(), func(r resource) bool {
		_, inRange := a.owner(r)
		return !inRange
	})
	for _, r := range owned {
		if !a.take(r, j.req.Owner) {
			j.res.Lost = true
		}
	}
	if !j.res.Lost {
		return j.old
	}
	for _, r := range owned {
		a.freeIfOwned(r, j.req.Owner)
	}
	return Assignment{}
}

// abandon frees all that a refused job has claimed beyond what it had.
func (a *Allocator) abandon(j *job) {
	had := j.old.resources()
	for _, r := range j.next.resources() {
		if !slices.Contains(had, r) {
			a.freeIfOwned(r, j.req.Owner)
		}
	}
}
