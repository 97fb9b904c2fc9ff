package endpoints

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// bin is a slice to be: what stands in it, and the existing slice that it is
// made from, if any.
type bin struct {
	from      *discoveryv1.EndpointSlice
	family    discoveryv1.AddressType
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
	changed   bool // differs from the slice that it is made from
}

// packing distributes the endpoints of one group over bins.
type packing struct {
	max     int
	bins    []*bin
	rest    []discoveryv1.Endpoint // have no place yet
	touched []*discoveryv1.Endpoint
}

// pack puts a group into its existing slices and, as far as they don't do,
// into new bins. Slices that lost all their endpoints come back as spare.
//
// Few writes are worth more than full slices (E-09): each endpoint stays where
// it is. What is new goes first into slices that change anyhow, then into the
// fullest slice that takes all of it, then into new ones.
func pack(family discoveryv1.AddressType, g *group, existing []*discoveryv1.EndpointSlice, max int) (packed packing, spare []*discoveryv1.EndpointSlice) {
	p := packing{max: max}
	spare = p.keep(family, g, existing)
	for _, b := range p.bins {
		if b.changed {
			p.fill(b)
		}
	}
	if b := p.tightest(); b != nil {
		p.fill(b)
	}
	for len(p.rest) > 0 {
		b := &bin{family: family, ports: g.ports, changed: true}
		p.bins = append(p.bins, b)
		p.fill(b)
	}
	return p, spare
}

// keep leaves every wanted endpoint in the slice where it stands.
func (p *packing) keep(family discoveryv1.AddressType, g *group, existing []*discoveryv1.EndpointSlice) (spare []*discoveryv1.EndpointSlice) {
	wanted := make(map[identity]*discoveryv1.Endpoint, len(g.endpoints))
	for i := range g.endpoints {
		wanted[identityOf(&g.endpoints[i])] = &g.endpoints[i]
	}
	for _, slice := range existing {
		b := &bin{from: slice, family: family, ports: slice.Ports}
		for i := range slice.Endpoints {
			p.keepOne(b, &slice.Endpoints[i], wanted)
		}
		if len(b.endpoints) == 0 {
			spare = append(spare, slice)
			continue
		}
		p.bins = append(p.bins, b)
	}
	for i := range g.endpoints {
		if ep := &g.endpoints[i]; wanted[identityOf(ep)] != nil {
			p.rest = append(p.rest, *ep)
		}
	}
	return spare
}

// keepOne takes an endpoint over from its slice, in its wanted state, unless
// nobody wants it, it was seen already, or the slice is over its limit.
func (p *packing) keepOne(b *bin, was *discoveryv1.Endpoint, wanted map[identity]*discoveryv1.Endpoint) {
	id := identityOf(was)
	want := wanted[id]
	if want == nil || len(b.endpoints) >= p.max {
		b.changed = true
		return
	}
	delete(wanted, id)
	if equalEndpoints(was, want) {
		b.endpoints = append(b.endpoints, *was)
		return
	}
	b.changed = true
	b.endpoints = append(b.endpoints, *want)
	p.touched = append(p.touched, want)
}

// fill moves as many endpoints as have room from the rest into a bin.
func (p *packing) fill(b *bin) {
	n := min(p.max-len(b.endpoints), len(p.rest))
	if n <= 0 {
		return
	}
	for i := range n {
		p.touched = append(p.touched, &p.rest[i])
	}
	b.endpoints = append(b.endpoints, p.rest[:n]...)
	b.changed = true
	p.rest = p.rest[n:]
}

// tightest returns the fullest bin that has room for the whole rest.
func (p *packing) tightest() *bin {
	var best *bin
	for _, b := range p.bins {
		fits := len(b.endpoints)+len(p.rest) <= p.max
		if fits && (best == nil || len(b.endpoints) > len(best.endpoints)) {
			best = b
		}
	}
	return best
}

// reuse gives spare slices to new bins, so that an update takes the place of a
// delete and a create. What is left over is to be deleted.
func reuse(bins []*bin, spare []*discoveryv1.EndpointSlice) {
	for _, b := range bins {
		if len(spare) == 0 {
			return
		}
		if b.from == nil {
			b.from, spare = spare[0], spare[1:]
			b.changed = portsKey(b.from.Ports) != portsKey(b.ports) ||
				!slices.EqualFunc(b.from.Endpoints, b.endpoints, func(x, y discoveryv1.Endpoint) bool { return equalEndpoints(&x, &y) })
		}
	}
}
