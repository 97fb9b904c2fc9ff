package vip

import (
	"net/netip"
	"slices"

	"signpost/discovery"
)

// admitted returns what may be seen of a desired service: the service itself,
// nothing, or, if a part of it was visible before, a copy without the cluster
// addresses and ports that don't work yet.
func (g *Gate) admitted(s, old *discovery.Service) *discovery.Service {
	if g.open || !g.config.Planner.Handles(s) || g.complete(s) {
		return s
	}
	if old == nil || old.UID != s.UID || !g.config.Planner.Handles(old) {
		return nil
	}
	held := *s
	held.ClusterIPs = filtered(s.ClusterIPs, func(a netip.Addr) bool {
		return slices.Contains(old.ClusterIPs, a) || g.allWork(s, []netip.Addr{a}, s.Ports)
	})
	held.Ports = filtered(s.Ports, func(p discovery.Port) bool {
		same := func(o discovery.Port) bool { return o.Port == p.Port && o.Protocol == p.Protocol }
		return slices.ContainsFunc(old.Ports, same) || g.allWork(s, held.ClusterIPs, []discovery.Port{p})
	})
	switch {
	case len(held.ClusterIPs) == 0:
		return nil // other addresses than before: it is a new service in all but name
	case len(held.ClusterIPs) == len(s.ClusterIPs) && len(held.Ports) == len(s.Ports):
		return s
	default:
		return &held
	}
}

// complete reports whether each cluster-IP frontend of a service works.
func (g *Gate) complete(s *discovery.Service) bool { return g.allWork(s, s.ClusterIPs, s.Ports) }

func (g *Gate) allWork(s *discovery.Service, addrs []netip.Addr, ports []discovery.Port) bool {
	if g.status.LastError != nil || g.status.Applied == nil {
		return false // nobody knows what works
	}
	for _, a := range addrs {
		for _, p := range ports {
			if !g.works(s.Key, Frontend{Addr: canonical(a), Port: p.Port, Protocol: p.Protocol}) {
				return false
			}
		}
	}
	return len(ports) > 0 || g.planned(s)
}

// works reports whether a frontend of a service is applied, or is one that
// planning left out: the controller has seen a version of the service that asks
// for it, and the plan does not have it.
func (g *Gate) works(owner discovery.Key, f Frontend) bool {
	if v := g.status.Applied.Get(f); v != nil {
		return v.Owner == owner
	}
	seen, _ := g.status.Snapshot.Services.Get(owner)
	return seen != nil && asksFor(seen, f) && !slices.ContainsFunc(g.status.Desired.Plan(owner).servers(), func(v *VirtualServer) bool { return v.Frontend == f })
}

// planned reports whether the controller has seen this version of a service.
func (g *Gate) planned(s *discovery.Service) bool {
	seen, _ := g.status.Snapshot.Services.Get(s.Key)
	return seen == s
}

func asksFor(s *discovery.Service, f Frontend) bool {
	hasAddr := slices.ContainsFunc(s.ClusterIPs, func(a netip.Addr) bool { return canonical(a) == f.Addr })
	return hasAddr && slices.ContainsFunc(s.Ports, func(p discovery.Port) bool { return p.Port == f.Port && p.Protocol == f.Protocol })
}

func filtered[T any](list []T, keep func(T) bool) []T {
	var kept []T
	for _, v := range list {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	return kept
}
