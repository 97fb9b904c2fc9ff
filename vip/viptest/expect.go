package viptest

import (
	"net/netip"
	"slices"

	"signpost/vip"
)

// Expect is the meaning of a state: what becomes of a packet on a node whose
// dataplane equals it. It is the measure for every backend. Affinity is not in
// it: it chooses among the endpoints that Expect allows.
//
// Source ranges come first: who is not admitted isn't told that there are no
// endpoints either (P-18). A port of a cluster address that no service has, and
// an address of the service range that no service has, are refused (F-16);
// other ports of external and load-balancer addresses pass (F-07).
func Expect(s *vip.State, p Packet) Outcome {
	v := lookup(s, p.To)
	switch {
	case v == nil && refused(s, p.To.Addr):
		return Outcome{Action: Reject}
	case v == nil:
		return Outcome{Action: Pass}
	case !v.Admits(p.From):
		return Outcome{Action: Drop}
	}
	route := v.Routes[p.Source]
	endpoints := v.Endpoints(route.Set)
	if len(endpoints) == 0 {
		return Outcome{Action: onEmpty(route.Empty)}
	}
	o := Outcome{Action: Forward, SNAT: route.SNAT}
	for _, e := range endpoints {
		o.Endpoints = append(o.Endpoints, e.AddrPort)
	}
	return o
}

// lookup finds the virtual server: the one of the very address, else the node
// port if the address is one on which node ports answer.
func lookup(s *vip.State, to vip.Frontend) *vip.VirtualServer {
	if to.IsNodePort() {
		return nil // no packet goes to the unspecified address
	}
	if v := s.Get(to); v != nil {
		return v
	}
	if s.Kinds(to.Addr).Captured() || !slices.Contains(s.Node().NodePortAddrs, to.Addr) {
		return nil
	}
	return s.Get(vip.NodePortFrontend(to.Is6(), to.Port, to.Protocol))
}

func refused(s *vip.State, a netip.Addr) bool {
	inRange := slices.ContainsFunc(s.Node().ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
	return inRange || s.Kinds(a).Captured()
}

func onEmpty(v vip.Verdict) Action {
	if v == vip.Drop {
		return Drop
	}
	return Reject
}
