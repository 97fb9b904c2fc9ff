package nftables

import (
	"maps"
	"net/netip"
	"slices"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// entry is what the kernel holds for one frontend.
type entry struct {
	server *vip.VirtualServer // nil: found in the kernel, of unknown origin
	class  class
	layout layout
	own    []ruleset.Element // only where server is nil; else made anew when needed
}

// elements returns an entry's elements; a nil entry has none.
func (e *entry) elements() (own, shared []ruleset.Element) {
	switch {
	case e == nil:
		return nil, nil
	case e.server == nil:
		return e.own, nil
	default:
		return elementsOf(e.server, e.class, e.layout)
	}
}

// entryFor plans the entry of a virtual server that follows another one.
func entryFor(v *vip.VirtualServer, before *entry) *entry {
	if v == nil {
		return nil
	}
	var old layout
	if before != nil {
		old = before.layout
	}
	return &entry{server: v, class: classOf(v), layout: layout{
		cluster: relayout(old.cluster, used(v, vip.ClusterSet)),
		local:   relayout(old.local, used(v, vip.LocalSet)),
	}}
}

// used returns a set of endpoints if a route leads there, and else nothing.
func used(v *vip.VirtualServer, which vip.Set) []vip.Endpoint {
	for _, r := range v.Routes {
		if r.Set == which {
			return v.Endpoints(which)
		}
	}
	return nil
}

// ledger is what the kernel is known to hold. Elements and chains that several
// virtual servers use are counted, and go with their last user.
type ledger struct {
	entries map[vip.Frontend]*entry
	shared  map[ruleset.Slot]int
	chains  map[string]int
	// found is what a look at the kernel showed and nobody has claimed yet:
	// it needs no writing. Nil after the adoption.
	found *contents
}

func newLedger(found *contents) *ledger {
	return &ledger{entries: found.entries, shared: map[ruleset.Slot]int{}, chains: map[string]int{}, found: found}
}

// step is one frontend's way from what is there to what is wanted.
type step struct {
	frontend      vip.Frontend
	before, after *entry
}

// plan enters steps in the ledger and returns the transaction that carries
// them out. If the kernel refuses it, undo takes them back.
func (l *ledger) plan(steps []step, pods vip.Detector) (*ruleset.Transaction, func()) {
	d := newDelta(l)
	for _, s := range steps {
		d.move(s)
	}
	return d.transaction(pods), d.undo
}

// delta collects what a group of steps changes.
type delta struct {
	ledger    *ledger
	del, add  map[ruleset.Slot]ruleset.Element
	chains    map[string]class // chains whose count went up from 0, with a class that has them
	steps     []step
	wasShared map[ruleset.Slot]int // counts before the delta, of all that it touched
	wasChains map[string]int
	sharedNow map[ruleset.Slot]ruleset.Element
}

func newDelta(l *ledger) *delta {
	return &delta{
		ledger: l, del: map[ruleset.Slot]ruleset.Element{}, add: map[ruleset.Slot]ruleset.Element{}, chains: map[string]class{},
		wasShared: map[ruleset.Slot]int{}, wasChains: map[string]int{}, sharedNow: map[ruleset.Slot]ruleset.Element{},
	}
}

func (d *delta) move(s step) {
	d.steps = append(d.steps, s)
	ownBefore, sharedBefore := s.before.elements()
	ownAfter, sharedAfter := s.after.elements()
	d.replace(ownBefore, ownAfter)
	d.count(sharedAfter, 1)
	d.count(sharedBefore, -1)
	d.countChains(s.after, 1)
	d.countChains(s.before, -1)
	if s.after == nil {
		delete(d.ledger.entries, s.frontend)
	} else {
		d.ledger.entries[s.frontend] = s.after
	}
}

// replace notes the difference between two lists of elements: an element that
// changes is deleted and added again, which the kernel does at once.
func (d *delta) replace(before, after []ruleset.Element) {
	old := make(map[ruleset.Slot]ruleset.Element, len(before))
	for _, e := range before {
		old[e.Slot()] = e
	}
	for _, e := range after {
		if was, exists := old[e.Slot()]; exists {
			delete(old, e.Slot())
			if was == e {
				continue
			}
			d.del[e.Slot()] = was
		}
		d.add[e.Slot()] = e
	}
	for s, e := range old {
		d.del[s] = e
	}
}

func (d *delta) count(elements []ruleset.Element, by int) {
	for _, e := range elements {
		s := e.Slot()
		if _, seen := d.wasShared[s]; !seen {
			d.wasShared[s] = d.ledger.shared[s]
		}
		d.sharedNow[s] = e
		d.ledger.shared[s] += by
	}
}

func (d *delta) countChains(e *entry, by int) {
	if e == nil || e.server == nil {
		return
	}
	for _, name := range e.class.names() {
		if _, seen := d.wasChains[name]; !seen {
			d.wasChains[name] = d.ledger.chains[name]
		}
		d.chains[name] = e.class
		d.ledger.chains[name] += by
	}
}

// transaction turns the delta into what the kernel has to do.
func (d *delta) transaction(pods vip.Detector) *ruleset.Transaction {
	d.settleShared()
	t := &ruleset.Transaction{Del: slices.Collect(maps.Values(d.del)), Add: slices.Collect(maps.Values(d.add))}
	for name, was := range d.wasChains {
		now := d.ledger.chains[name]
		if was == 0 && now > 0 {
			if c := d.chains[name].chain(name, pods); !d.ledger.found.hasChain(c) {
				t.Chains = append(t.Chains, c)
			}
		}
		if was > 0 && now == 0 {
			t.Unmake = append(t.Unmake, name)
		}
		restore(d.ledger.chains, name, now)
	}
	return t
}

// settleShared adds the shared elements that got their first user, and deletes
// those that lost their last one.
func (d *delta) settleShared() {
	for s, was := range d.wasShared {
		now := d.ledger.shared[s]
		if was == 0 && now > 0 && !d.ledger.found.hasElement(d.sharedNow[s]) {
			d.add[s] = d.sharedNow[s]
		}
		if was > 0 && now == 0 {
			d.del[s] = d.sharedNow[s]
		}
		restore(d.ledger.shared, s, now)
	}
}

// undo puts the ledger back to where it was before the delta.
func (d *delta) undo() {
	for s, n := range d.wasShared {
		restore(d.ledger.shared, s, n)
	}
	for name, n := range d.wasChains {
		restore(d.ledger.chains, name, n)
	}
	for _, s := range d.steps {
		if s.before == nil {
			delete(d.ledger.entries, s.frontend)
		} else {
			d.ledger.entries[s.frontend] = s.before
		}
	}
}

// restore sets a count; a count of zero has no entry.
func restore[K comparable](counts map[K]int, k K, n int) {
	if n == 0 {
		delete(counts, k)
	} else {
		counts[k] = n
	}
}

// placed rebuilds a layout from the indices that the kernel holds; places that
// it lacks stay invalid.
func placed(at map[uint32]netip.AddrPort) []netip.AddrPort {
	order := make([]netip.AddrPort, len(at))
	for i, ap := range at {
		if int(i) < len(order) {
			order[i] = ap
		}
	}
	return order
}
