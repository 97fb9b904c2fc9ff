package dnsserver

// fastRoutes finds the route of a name in wire form: what serving.match does
// for names in presentation format.
type fastRoutes struct {
	byZone map[string]*route // by name in lower-case wire form
	// No zone has fewer or more labels than these.
	least, most int
}

// newFastRoutes indexes the routes of a listening address. All of them, those
// without a fast path too: they hide less specific ones.
func newFastRoutes(routes map[string]*route) *fastRoutes {
	f := &fastRoutes{byZone: make(map[string]*route, len(routes)), least: maxNameLabels}
	for zone, r := range routes {
		var n queryName
		if !n.parse(zone) {
			return nil // not a name: whoever validates lets none through
		}
		f.byZone[string(n.wire[:n.size])] = r
		f.least, f.most = min(f.least, n.labels), max(f.most, n.labels)
	}
	return f
}

// match returns the route of the most specific zone that holds the name, nil
// if there is none.
func (f *fastRoutes) match(n *queryName) *route {
	if f == nil {
		return nil
	}
	for labels := min(f.most, n.labels); labels >= f.least; labels-- {
		if r := f.byZone[string(n.from(n.labels-labels))]; r != nil {
			return r
		}
	}
	return nil
}
