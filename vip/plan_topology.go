package vip

import "slices"

// closest keeps the endpoints whose hints name this node or, failing that,
// this zone (P-05). One ready endpoint without a hint switches the filter off
// for the whole port: the hints are then in the middle of a change. It keeps
// all if it would keep none.
func closest(ready []candidate, node *Node) []candidate {
	if kept, ok := hinted(ready, node.Name, func(c candidate) []string { return c.from.ForNodes }); ok {
		return kept
	}
	if kept, ok := hinted(ready, node.Zone, func(c candidate) []string { return c.from.ForZones }); ok {
		return kept
	}
	return ready
}

// hinted returns the candidates with a hint for here, and whether the hints
// can be used: every candidate has some, and at least one is for here.
func hinted(ready []candidate, here string, hints func(candidate) []string) ([]candidate, bool) {
	if here == "" || slices.ContainsFunc(ready, func(c candidate) bool { return len(hints(c)) == 0 }) {
		return nil, false
	}
	kept := filter(ready, func(c candidate) bool { return slices.Contains(hints(c), here) })
	return kept, len(kept) > 0
}
