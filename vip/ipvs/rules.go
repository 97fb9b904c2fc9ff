package ipvs

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
	"signpost/vip/sysctl"
)

// table is what this package needs of nf_tables; *ruleset.Conn is one.
type table interface {
	Commit(ctx context.Context, t *ruleset.Transaction) error
	Look(ctx context.Context, chains []ruleset.Chain) (*ruleset.Contents, error)
	Generation(ctx context.Context) (uint32, error)
	Port() uint32
	Remove(ctx context.Context) error
	Close() error
}

// rules is the nf_tables half of the dataplane: what the kernel's sets hold,
// and how many frontends want each element.
type rules struct {
	conn  table
	held  map[ruleset.Slot]ruleset.Element
	users map[ruleset.Slot]int
	fresh bool // the next transaction has to make the table
	// later are chains that refuse what no service has: they are written when
	// the services are there.
	later []ruleset.Chain

	node    *vip.Node // that the chains are made for
	liberal bool      // so is this: connection tracking does not look at TCP's window
	settled uint32    // the ruleset's generation after our last transaction or look
	// port is our socket as the kernel's notifications name it.
	port atomic.Uint32
}

// connect has the rules be programmed over a connection; what the kernel holds
// is not known.
func (r *rules) connect(conn table) {
	r.conn, r.held = conn, nil
	r.port.Store(conn.Port())
}

// batch collects what one transaction changes.
type batch struct {
	rules *rules
	next  map[ruleset.Slot]*ruleset.Element // nil: to be deleted
}

func (r *rules) batch() *batch { return &batch{r, map[ruleset.Slot]*ruleset.Element{}} }

// put has an element exist with its value.
func (b *batch) put(elements ...ruleset.Element) {
	for i := range elements {
		b.next[elements[i].Slot()] = &elements[i]
	}
}

// drop has an element not exist.
func (b *batch) drop(slot ruleset.Slot) { b.next[slot] = nil }

// chainAt is where a verdict map leads now; empty: nowhere.
func (b *batch) chainAt(slot ruleset.Slot) string { return b.rules.held[slot].Chain }

func (r *rules) use(elements []ruleset.Element, by int) {
	for _, e := range elements {
		slot := e.Slot()
		if r.users[slot] += by; r.users[slot] == 0 {
			delete(r.users, slot)
		}
	}
}

// commit carries out a batch. After an error the kernel holds what it held.
func (r *rules) commit(ctx context.Context, b *batch) error {
	t := &ruleset.Transaction{}
	for slot, want := range b.next {
		was, exists := r.held[slot]
		if exists && want != nil && was == *want {
			continue
		}
		if exists {
			t.Del = append(t.Del, was)
		}
		if want != nil {
			t.Add = append(t.Add, *want)
		}
	}
	if err := r.write(ctx, t); err != nil {
		return err
	}
	for slot, want := range b.next {
		if want == nil {
			delete(r.held, slot)
		} else {
			r.held[slot] = *want
		}
	}
	return nil
}

// write carries out a transaction and notes whether it was the only one since
// our last one.
func (r *rules) write(ctx context.Context, t *ruleset.Transaction) error {
	if r.fresh {
		t.Create, t.Chains = true, append(opened(skeleton(r.node, r.liberal)), t.Chains...)
	}
	if t.Empty() {
		return nil
	}
	before, err := r.conn.Generation(ctx)
	if err != nil {
		return err
	}
	if err := r.conn.Commit(ctx, t); err != nil {
		return err
	}
	r.fresh = false
	after, err := r.conn.Generation(ctx)
	if err == nil && after == before+1 && before == r.settled {
		r.settled = after
	}
	return err
}

// undisturbed reports whether nobody has changed the ruleset since our last
// transaction: it saves the look, which costs as much as there are Services.
func (r *rules) undisturbed(ctx context.Context, node *vip.Node) (bool, error) {
	if r.held == nil || !r.node.Equal(node) || r.liberal != sysctl.LiberalConntrack() {
		return false, nil
	}
	now, err := r.conn.Generation(ctx)
	return err == nil && now == r.settled, err
}

// look learns what the kernel holds and sets right what depends on no Service.
func (r *rules) look(ctx context.Context, node *vip.Node) error {
	r.users = map[ruleset.Slot]int{}
	if same, err := r.undisturbed(ctx, node); err != nil || same {
		return err
	}
	r.liberal = sysctl.LiberalConntrack()
	want := skeleton(node, r.liberal)
	found, err := r.conn.Look(ctx, want)
	if err != nil {
		return err
	}
	r.held, r.node, r.fresh, r.settled = found.BySlot(), node, !found.Usable, found.Generation
	t := &ruleset.Transaction{}
	r.later = slices.DeleteFunc(latest(want), found.Has)
	if found.Usable {
		t.Chains = slices.DeleteFunc(want, func(c ruleset.Chain) bool { return late(c) || found.Has(c) })
	}
	return r.write(ctx, t)
}

// close has what no service has be refused, once all services are served: until
// then their addresses are another dataplane's, which may be at work (X22).
func (r *rules) close(ctx context.Context) error {
	if len(r.later) == 0 {
		return nil
	}
	err := r.write(ctx, &ruleset.Transaction{Chains: r.later})
	if err == nil {
		r.later = nil
	}
	return err
}

// unused yields the elements that the kernel holds and nobody wants.
func (r *rules) unused() []ruleset.Element {
	return slices.Collect(func(yield func(ruleset.Element) bool) {
		for slot, e := range maps.All(r.held) {
			if r.users[slot] == 0 && !yield(e) {
				return
			}
		}
	})
}
