package nftables

import (
	"net/netip"

	"signpost/vip"
)

// element is one element of a set or map. It is comparable: two elements with
// the same set and key are the same element if value, chain and last are equal.
type element struct {
	set   *set
	key   string
	last  string // interval sets: the last key of the range
	value string // data maps
	chain string // verdict maps: where to go
}

// slot is what identifies an element.
type slot struct {
	set *set
	key string
}

func (e element) slot() slot { return slot{e.set, e.key} }

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
func elementsOf(v *vip.VirtualServer, c class, l layout) (own, shared []element) {
	s := setsOf[c.family]
	key := frontendKey(v.Frontend)
	own = append(own, dispatchElement(s, v.Frontend, c.entry()))
	for _, which := range []vip.Set{vip.ClusterSet, vip.LocalSet} {
		own = append(own, endpointElements(s.endpointsOf(which), key, l.of(which))...)
	}
	own = append(own, rangeElements(s, key, v)...)
	if v.Kind == vip.KindClusterIP {
		shared = append(shared, element{set: s.clusterIPs, key: string(appendAddr(nil, v.Frontend.Addr))})
	}
	return own, append(shared, hairpinElements(s, v)...)
}

func dispatchElement(s *familySets, f vip.Frontend, entry string) element {
	if f.IsNodePort() {
		return element{set: s.nodePorts, key: string(appendPort(appendProtocol(nil, f.Protocol), f.Port)), chain: entry}
	}
	return element{set: s.services, key: string(frontendKey(f)), chain: entry}
}

func endpointElements(s *set, key []byte, order []netip.AddrPort) []element {
	elements := make([]element, len(order))
	for i, ap := range order {
		index := appendNumber(key[:len(key):len(key)], uint32(i))
		elements[i] = element{set: s, key: string(index), value: endpointValue(ap)}
	}
	return elements
}

func rangeElements(s *familySets, key []byte, v *vip.VirtualServer) []element {
	if !v.Restricted {
		return nil
	}
	var elements []element
	for _, p := range mergePrefixes(v.SourceRanges) {
		first, last := interval(key, p)
		elements = append(elements, element{set: s.ranges, key: first, last: last})
	}
	return elements
}

// mergePrefixes drops the prefixes that lie inside another one: the kernel
// refuses ranges that overlap.
func mergePrefixes(prefixes []netip.Prefix) []netip.Prefix {
	var kept []netip.Prefix
	for i, p := range prefixes {
		covered := false
		for j, q := range prefixes {
			wider := q.Bits() < p.Bits() || q.Bits() == p.Bits() && j < i
			covered = covered || i != j && wider && q.Overlaps(p)
		}
		if !covered {
			kept = append(kept, p)
		}
	}
	return kept
}

// hairpinElements names the endpoints that may run on this node (P-15).
func hairpinElements(s *familySets, v *vip.VirtualServer) []element {
	var elements []element
	for _, endpoints := range [][]vip.Endpoint{v.Cluster, v.Local} {
		for _, e := range endpoints {
			if e.Local || e.Unplaced {
				a := appendAddr(nil, e.AddrPort.Addr())
				elements = append(elements, element{set: s.hairpin, key: string(append(a, a...))})
			}
		}
	}
	return elements
}

// nodeElements returns the elements that follow from the node alone.
func nodeElements(node *vip.Node) []element {
	var elements []element
	for _, a := range node.NodePortAddrs {
		elements = append(elements, element{set: setsOf[familyOf(a.Is6())].nodePortAddrs, key: string(appendAddr(nil, a))})
	}
	return elements
}
