package vip

import (
	"net/netip"
	"slices"
	"time"

	"signpost/discovery"
)

// endpointSets is what one port has in one family (P-04).
type endpointSets struct {
	cluster, local []Endpoint
	any            bool // there is a usable endpoint on some node
}

// candidate is one endpoint of one port.
type candidate struct {
	to      netip.AddrPort
	local   bool
	from    *discovery.Endpoint
	trigger time.Time // of its slice
}

// draining reports whether the endpoint may be used if there is no ready one.
func (c candidate) draining() bool { return !c.from.Ready && c.from.Serving && c.from.Terminating }

func (b *planning) isLocal(e *discovery.Endpoint) bool { return e.Node != "" && e.Node == b.node.Name }

// endpointSets joins a port with the service's endpoints and chooses.
func (b *planning) endpointSets(port discovery.Port, v6 bool) endpointSets {
	all := b.candidates(port, v6)
	ready := filter(all, func(c candidate) bool { return c.from.Ready })
	draining := filter(all, candidate.draining)
	isLocal := func(c candidate) bool { return c.local }

	sets := endpointSets{any: len(ready)+len(draining) > 0}
	sets.cluster = endpoints(orElse(closest(ready, b.node), draining))
	sets.local = endpoints(orElse(filter(ready, isLocal), filter(draining, isLocal)))
	return sets
}

// candidates joins by port name and protocol, never by number (P-03), over all
// slices (P-08), and returns each address and port once (P-07), in order.
func (b *planning) candidates(port discovery.Port, v6 bool) []candidate {
	var list []candidate
	for _, slice := range b.service.Slices {
		for _, p := range slice.Ports {
			if p.Name != port.Name || p.Protocol != port.Protocol || p.Port == 0 {
				continue
			}
			list = b.appendSlice(list, slice, p.Port, v6)
		}
	}
	slices.SortStableFunc(list, func(x, y candidate) int { return x.to.Compare(y.to) })
	return withoutDuplicates(list)
}

func (b *planning) appendSlice(list []candidate, slice *discovery.Slice, port uint16, v6 bool) []candidate {
	list = slices.Grow(list, len(slice.Endpoints))
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		a := canonical(e.Addr)
		if a.Is6() != v6 || !usableAddr(a) {
			continue
		}
		list = append(list, candidate{to: netip.AddrPortFrom(a, port), local: b.isLocal(e), from: e, trigger: slice.Trigger})
	}
	return list
}

// withoutDuplicates keeps one candidate of each address and port; the list is
// sorted by them.
func withoutDuplicates(list []candidate) []candidate {
	kept := list[:0]
	for _, c := range list {
		if last := len(kept) - 1; last >= 0 && kept[last].to == c.to {
			kept[last] = better(kept[last], c)
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// better chooses between two entries for one address and port (P-07). Of two
// entries about one pod the newer is right. Two pods with one address means
// that a new pod got the address of one that is on its way out: the one that
// works is right.
func better(a, b candidate) candidate {
	samePod := a.from.Target == b.from.Target && a.from.Target.Kind != ""
	if samePod && !a.trigger.IsZero() && !b.trigger.IsZero() && !a.trigger.Equal(b.trigger) {
		if b.trigger.After(a.trigger) {
			return b
		}
		return a
	}
	for _, wins := range []func(candidate) bool{
		func(c candidate) bool { return c.from.Ready },
		func(c candidate) bool { return c.from.Serving },
		func(c candidate) bool { return !c.from.Terminating },
		func(c candidate) bool { return c.local },
	} {
		if wins(a) != wins(b) {
			if wins(b) {
				return b
			}
			return a
		}
	}
	return a
}

func filter(list []candidate, keep func(candidate) bool) []candidate {
	var kept []candidate
	for _, c := range list {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

func orElse(list, fallback []candidate) []candidate {
	if len(list) == 0 {
		return fallback
	}
	return list
}

func endpoints(list []candidate) []Endpoint {
	if len(list) == 0 {
		return nil
	}
	result := make([]Endpoint, len(list))
	for i, c := range list {
		result[i] = Endpoint{AddrPort: c.to, Local: c.local, Unplaced: c.from.Node == ""}
	}
	return result
}
