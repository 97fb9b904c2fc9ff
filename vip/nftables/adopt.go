package nftables

import (
	"context"
	"slices"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
	"signpost/vip/sysctl"
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
	if b.ledger == nil || !b.node.Equal(want.Node()) || b.liberal != sysctl.LiberalConntrack() {
		return false, nil
	}
	now, err := b.kernel.Generation(ctx)
	return err == nil && now == b.settled, err
}

func (b *Backend) lookAndReconcile(ctx context.Context, want *vip.State) error {
	found, usable, err := look(ctx, b.kernel)
	if err != nil {
		return err
	}
	b.ledger, b.fresh, b.stuck = newLedger(found), !usable, map[vip.Frontend]error{}
	b.node, b.settled, b.liberal = want.Node(), found.generation, sysctl.LiberalConntrack()
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
		return b.commit(ctx, found.repair(want.Node(), b.liberal))
	}
	if want.Len() > 0 {
		return nil
	}
	t := &ruleset.Transaction{}
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
	shared     map[ruleset.Slot]bool
	chains     map[string][]string // by name: the comments of the rules, in order
}

func newContents() *contents {
	return &contents{entries: map[vip.Frontend]*entry{}, shared: map[ruleset.Slot]bool{}, chains: map[string][]string{}}
}

func (c *contents) hasElement(e ruleset.Element) bool { return c != nil && c.shared[e.Slot()] }

func (c *contents) hasChain(want ruleset.Chain) bool {
	if c == nil {
		return false
	}
	comments, exists := c.chains[want.Name]
	return exists && slices.Equal(comments, want.Labels())
}

// repair returns what has to change in the parts that depend on no Service.
func (c *contents) repair(node *vip.Node, liberal bool) *ruleset.Transaction {
	t := &ruleset.Transaction{}
	for _, want := range skeleton(node, liberal) {
		if !c.hasChain(want) {
			t.Chains = append(t.Chains, want)
		}
		delete(c.chains, want.Name)
	}
	for _, e := range nodeElements(node) {
		if !c.hasElement(e) {
			t.Add = append(t.Add, e)
		}
		delete(c.shared, e.Slot())
	}
	for s := range c.shared {
		if s.Set == setsOf[s.Set.Family].nodePortAddrs {
			t.Del = append(t.Del, ruleset.Element{Set: s.Set, Key: s.Key})
			delete(c.shared, s)
		}
	}
	return t
}

// leftovers returns the removal of what was found and has no user.
func (c *contents) leftovers(l *ledger) *ruleset.Transaction {
	t := &ruleset.Transaction{}
	for s := range c.shared {
		if l.shared[s] == 0 {
			t.Del = append(t.Del, ruleset.Element{Set: s.Set, Key: s.Key})
		}
	}
	for name := range c.chains {
		if l.chains[name] == 0 {
			t.Unmake = append(t.Unmake, name)
		}
	}
	return t
}
