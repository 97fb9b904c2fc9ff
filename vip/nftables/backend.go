package nftables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// Backend programs nf_tables over netlink. Its methods are for one goroutine,
// but for Watch. Make one with [New].
type Backend struct {
	log    *slog.Logger
	kernel *ruleset.Conn
	ledger *ledger // nil: the kernel's state is not known
	fresh  bool    // the next transaction has to make the table
	stuck  map[vip.Frontend]error
	batch  int // frontends of one transaction; 0: batchSize

	node     *vip.Node // that the chains are made for
	liberal  bool      // so is this: connection tracking does not look at TCP's window
	settled  uint32    // the ruleset's generation after our last transaction or look
	intruded bool      // somebody else has changed the ruleset since

	// port is our socket as the kernel's notifications name it; see Watch.
	port atomic.Uint32
}

var (
	_ vip.Backend = (*Backend)(nil)
	_ vip.Watcher = (*Backend)(nil)
)

// New returns a backend for the network namespace that the calling thread is
// in. It opens no socket before the first Apply.
func New(log *slog.Logger) *Backend {
	return &Backend{log: log, stuck: map[vip.Frontend]error{}}
}

// Name implements [vip.Backend].
func (b *Backend) Name() string { return "nftables" }

// Apply implements [vip.Backend].
func (b *Backend) Apply(ctx context.Context, have, want *vip.State) error {
	if err := b.open(); err != nil {
		return err
	}
	if have == nil || b.ledger == nil || !b.node.Equal(want.Node()) {
		return b.adopt(ctx, want)
	}
	err := b.run(ctx, b.steps(have, want), want)
	if err != nil && !isPartial(err) {
		b.forget()
	}
	return err
}

// Cleanup implements [vip.Backend]: it deletes the table.
func (b *Backend) Cleanup(ctx context.Context) error {
	if err := b.open(); err != nil {
		return err
	}
	defer b.forget()
	// First nothing leads into the table any more. A packet on its way through it
	// in the moment in which maps and sets go could find a cluster address without
	// its service, and be refused.
	if err := b.kernel.Empty(ctx, preroutingChain, outputChain); err != nil {
		return err
	}
	return b.kernel.Remove(ctx)
}

// Close gives back the netlink socket; what is in the kernel stays.
func (b *Backend) Close() error {
	if b.kernel == nil {
		return nil
	}
	err := b.kernel.Close()
	b.kernel, b.ledger = nil, nil
	return err
}

func (b *Backend) open() error {
	if b.kernel != nil {
		return nil
	}
	k, err := ruleset.Open(tableName, allSets)
	if err != nil {
		return err
	}
	b.kernel = k
	b.port.Store(k.Port())
	return nil
}

// forget drops the socket, which may hold answers to requests that were given
// up, and what is known of the kernel.
func (b *Backend) forget() {
	if err := b.Close(); err != nil {
		b.log.Debug("closing after an error", "err", err)
	}
}

// steps lists what a change of state means for the kernel, and what is left
// over from frontends that failed before.
func (b *Backend) steps(have, want *vip.State) []step {
	var steps []step
	for before, after := range vip.Changes(have, want) {
		steps = append(steps, b.step(frontendOf(before, after), after))
	}
	for f := range b.stuck {
		if have.Get(f) == nil && want.Get(f) == nil {
			steps = append(steps, b.step(f, nil))
		}
	}
	return steps
}

func (b *Backend) step(f vip.Frontend, v *vip.VirtualServer) step {
	before := b.ledger.entries[f]
	return step{frontend: f, before: before, after: entryFor(v, before)}
}

func frontendOf(before, after *vip.VirtualServer) vip.Frontend {
	if after != nil {
		return after.Frontend
	}
	return before.Frontend
}

// run carries out the steps, all at once if the kernel lets it. A frontend
// that the kernel refuses is found by halving, and fails alone.
func (b *Backend) run(ctx context.Context, steps []step, want *vip.State) error {
	failed := map[vip.Frontend]error{}
	steps = b.withoutUnsupported(steps, failed)
	if err := b.try(ctx, steps, want.Node(), failed); err != nil {
		return err
	}
	b.stuck = failed
	if len(failed) > 0 {
		return &vip.PartialError{Failed: failed}
	}
	return nil
}

// batchSize bounds the frontends of one transaction: what the socket's buffer
// holds with ten endpoints each.
const batchSize = 20_000

func (b *Backend) try(ctx context.Context, steps []step, node *vip.Node, failed map[vip.Frontend]error) error {
	if len(steps) == 0 {
		return nil
	}
	if most := cmp.Or(b.batch, batchSize); len(steps) > most {
		return errors.Join(b.try(ctx, steps[:most], node, failed), b.try(ctx, steps[most:], node, failed))
	}
	t, undo := b.ledger.plan(steps, node.Detector)
	b.createFirst(t, node)
	err := b.commit(ctx, t)
	if err == nil {
		b.fresh = false
		b.forgetClients(ctx, steps)
		return nil
	}
	undo()
	if !refusal(err) || b.intruded {
		return err // what is there may not be what the ledger says
	}
	if len(steps) == 1 {
		failed[steps[0].frontend] = fmt.Errorf("programming nftables: %s", ruleset.Reason(err, "it"))
		return nil
	}
	half := len(steps) / 2
	return errors.Join(b.try(ctx, steps[:half], node, failed), b.try(ctx, steps[half:], node, failed))
}

// createFirst has a transaction make the table, if that is still to be done.
func (b *Backend) createFirst(t *ruleset.Transaction, node *vip.Node) {
	if b.fresh {
		t.Create = true
		t.Chains = append(skeleton(node, b.liberal), t.Chains...)
		t.Add = append(t.Add, nodeElements(node)...)
	}
}

// commit carries out a transaction and notes whether anybody else has written
// since our last one.
func (b *Backend) commit(ctx context.Context, t *ruleset.Transaction) error {
	if t.Empty() {
		return nil
	}
	before, err := b.kernel.Generation(ctx)
	if err != nil {
		return err
	}
	b.intruded = before != b.settled
	if err := b.kernel.Commit(ctx, t); err != nil {
		return err
	}
	after, err := b.kernel.Generation(ctx)
	if err == nil && after == before+1 && !b.intruded {
		b.settled = after
	}
	return err
}

// refusal reports whether the kernel looked at a transaction and said no, as
// opposed to not answering or not letting us ask.
func refusal(err error) bool {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case unix.EPERM, unix.EACCES, unix.EAGAIN, unix.EINTR, unix.ENOBUFS, unix.EPIPE:
		return false
	}
	return true
}

func isPartial(err error) bool {
	var partial *vip.PartialError
	return errors.As(err, &partial)
}
