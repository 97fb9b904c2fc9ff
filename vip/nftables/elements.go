package nftables

import (
	"net/netip"
	"slices"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// layout is the order in which a virtual server's endpoints stand in the
// endpoint maps. The kernel knows an endpoint by its index only; see relayout.
type layout struct{ cluster, local []netip.AddrPort }

func (l layout) of(which vip.Set) []netip.AddrPort {
	if which == vip.LocalSet {
		return l.local
	}
	return l.cluster
}

// relayout returns an order for the wanted endpoints that differs from the
// present one in as few places as possible: the last ones and new ones fill
// the places of those that go. No endpoint is wanted twice.
func relayout(present []netip.AddrPort, want []vip.Endpoint) []netip.AddrPort {
	wanted := make(map[netip.AddrPort]bool, len(want))
	for _, e := range want {
		wanted[e.AddrPort] = true
	}
	next := make([]netip.AddrPort, len(want))
	for i, ap := range present[:min(len(present), len(want))] {
		if wanted[ap] {
			next[i] = ap
			delete(wanted, ap)
		}
	}
	place := 0
	for _, e := range want {
		if !wanted[e.AddrPort] {
			continue
		}
		for next[place].IsValid() {
			place++
		}
		next[place] = e.AddrPort
	}
	return next
}

// elementsOf returns the elements that a virtual server needs for itself, and
// those that it shares with others.
func elementsOf(v *vip.VirtualServer, c class, l layout) (own, shared []ruleset.Element) {
	s := setsOf[c.family]
	key := frontendKey(v.Frontend)
	own = append(own, dispatchElement(s, v.Frontend, c.entry()))
	for _, which := range []vip.Set{vip.ClusterSet, vip.LocalSet} {
		own = append(own, endpointElements(s.endpointsOf(which), key, l.of(which))...)
	}
	own = append(own, rangeElements(s, key, v)...)
	if v.Kind == vip.KindClusterIP {
		shared = append(shared, ruleset.Element{Set: s.clusterIPs, Key: string(ruleset.AppendAddr(nil, v.Frontend.Addr))})
	}
	return own, slices.Concat(shared, hairpinElements(s, v), portElements(s, v))
}

func dispatchElement(s *familySets, f vip.Frontend, entry string) ruleset.Element {
	if f.IsNodePort() {
		return ruleset.Element{Set: s.nodePorts, Key: string(ruleset.AppendPort(appendProtocol(nil, f.Protocol), f.Port)), Chain: entry}
	}
	return ruleset.Element{Set: s.services, Key: string(frontendKey(f)), Chain: entry}
}

func endpointElements(s *ruleset.Set, key []byte, order []netip.AddrPort) []ruleset.Element {
	elements := make([]ruleset.Element, len(order))
	for i, ap := range order {
		index := ruleset.AppendNumber(key[:len(key):len(key)], uint32(i))
		elements[i] = ruleset.Element{Set: s, Key: string(index), Value: endpointValue(ap)}
	}
	return elements
}

func rangeElements(s *familySets, key []byte, v *vip.VirtualServer) []ruleset.Element {
	if !v.Restricted {
		return nil
	}
	var elements []ruleset.Element
	for _, p := range ruleset.MergePrefixes(v.SourceRanges) {
		first, last := ruleset.Interval(key, p)
		elements = append(elements, ruleset.Element{Set: s.ranges, Key: first, Last: last})
	}
	return elements
}

// hairpinElements names the endpoints that may run on this node (P-15).
func hairpinElements(s *familySets, v *vip.VirtualServer) []ruleset.Element {
	var elements []ruleset.Element
	for _, endpoints := range [][]vip.Endpoint{v.Cluster, v.Local} {
		for _, e := range endpoints {
			if e.Local || e.Unplaced {
				a := ruleset.AppendAddr(nil, e.AddrPort.Addr())
				elements = append(elements, ruleset.Element{Set: s.hairpin, Key: string(append(a, a...))})
			}
		}
	}
	return elements
}

// nodeElements returns the elements that follow from the node alone.
func nodeElements(node *vip.Node) []ruleset.Element {
	var elements []ruleset.Element
	for _, a := range node.NodePortAddrs {
		elements = append(elements, ruleset.Element{Set: setsOf[ruleset.FamilyOf(a.Is6())].nodePortAddrs, Key: string(ruleset.AppendAddr(nil, a))})
	}
	return elements
}
