package nftables

import (
	"context"
	"slices"

	"signpost/vip"
)

// adopt makes the kernel equal want without knowing what it holds: it looks,
// keeps what is right and writes the difference. A table that is missing or of
// another shape is made anew, in the same transaction as its contents, so that
// there is never a moment with half of it.
func (b *Backend) adopt(ctx context.Context, want *vip.State) error {
	known, err := b.undisturbed(ctx, want)
	switch {
	case err == nil && known:
		err = b.run(ctx, b.ledgerSteps(want), want)
	case err == nil:
		err = b.lookAndReconcile(ctx, want)
	}
	if err != nil && !isPartial(err) {
		b.forget()
	}
	return err
}

// undisturbed reports whether the kernel still holds what the ledger says:
// nobody has committed anything since our own last transaction. It saves the
// look, which costs as much as there are Services.
func (b *Backend) undisturbed(ctx context.Context, want *vip.State) (bool, error) {
	if b.ledger == nil || !b.node.Equal(want.Node()) {
		return false, nil
	}
	if err := b.kernel.bound(ctx); err != nil {
		return false, err
	}
	now, err := b.kernel.generation()
	return err == nil && now == b.settled, err
}

func (b *Backend) lookAndReconcile(ctx context.Context, want *vip.State) error {
	found, usable, err := b.kernel.look(ctx)
	if err != nil {
		return err
	}
	b.ledger, b.fresh, b.stuck = newLedger(found), !usable, map[vip.Frontend]error{}
	b.node, b.settled = want.Node(), found.generation
	return b.reconcile(ctx, found, want)
}

func (b *Backend) reconcile(ctx context.Context, found *contents, want *vip.State) error {
	if err := b.repair(ctx, found, want); err != nil {
		return err
	}
	failed := b.run(ctx, b.ledgerSteps(want), want)
	if failed != nil && !isPartial(failed) {
		return failed
	}
	leftovers := found.leftovers(b.ledger)
	b.ledger.found = nil
	if err := b.commit(ctx, leftovers); err != nil {
		return err
	}
	return failed
}

// repair sets right what depends on no Service. A table that has to be made
// gets that together with its Services, if there are any.
func (b *Backend) repair(ctx context.Context, found *contents, want *vip.State) error {
	if !b.fresh {
		return b.commit(ctx, found.repair(want.Node()))
	}
	if want.Len() > 0 {
		return nil
	}
	t := &transaction{}
	b.createFirst(t, want.Node())
	if err := b.commit(ctx, t); err != nil {
		return err
	}
	b.fresh = false
	return nil
}

// ledgerSteps leads from what the ledger holds to what is wanted.
func (b *Backend) ledgerSteps(want *vip.State) []step {
	var steps []step
	for v := range want.All() {
		if e := b.ledger.entries[v.Frontend]; e == nil || e.server != v {
			steps = append(steps, b.step(v.Frontend, v))
		}
	}
	for f := range b.ledger.entries {
		if want.Get(f) == nil {
			steps = append(steps, b.step(f, nil))
		}
	}
	return steps
}

// contents is what the kernel's table holds.
type contents struct {
	generation uint32 // of the ruleset when it was read
	entries    map[vip.Frontend]*entry
	shared     map[slot]bool
	chains     map[string][]string // by name: the comments of the rules, in order
}

func newContents() *contents {
	return &contents{entries: map[vip.Frontend]*entry{}, shared: map[slot]bool{}, chains: map[string][]string{}}
}

func (c *contents) hasElement(e element) bool { return c != nil && c.shared[e.slot()] }

func (c *contents) hasChain(want chain) bool {
	if c == nil {
		return false
	}
	comments, exists := c.chains[want.name]
	return exists && slices.Equal(comments, want.comments())
}

// repair returns what has to change in the parts that depend on no Service.
func (c *contents) repair(node *vip.Node) *transaction {
	t := &transaction{}
	for _, want := range skeleton(node) {
		if !c.hasChain(want) {
			t.newChains = append(t.newChains, want)
		}
		delete(c.chains, want.name)
	}
	for _, e := range nodeElements(node) {
		if !c.hasElement(e) {
			t.add = append(t.add, e)
		}
		delete(c.shared, e.slot())
	}
	for s := range c.shared {
		if s.set == setsOf[s.set.family].nodePortAddrs {
			t.del = append(t.del, element{set: s.set, key: s.key})
			delete(c.shared, s)
		}
	}
	return t
}

// leftovers returns the removal of what was found and has no user.
func (c *contents) leftovers(l *ledger) *transaction {
	t := &transaction{}
	for s := range c.shared {
		if l.shared[s] == 0 {
			t.del = append(t.del, element{set: s.set, key: s.key})
		}
	}
	for name := range c.chains {
		if l.chains[name] == 0 {
			t.oldChains = append(t.oldChains, name)
		}
	}
	return t
}
