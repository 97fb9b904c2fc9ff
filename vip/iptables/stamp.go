package iptables

import (
	"context"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip/internal/transactions"
)

// stamp tells whether the tables were written to since another stamp was
// taken. It is comparable; the zero stamp is unknown.
type stamp struct {
	generation uint32                     // nf_tables: transactions committed
	sizes      [len(tables) * 2][2]uint32 // legacy: rules and bytes of each table
	known      bool
}

// span is a range of nf_tables generations that are all ours: after < n ≤ last.
type span struct{ after, last uint32 }

// spansKept bounds what is remembered of our own writes. Notifications of older
// ones have come long ago.
const spansKept = 64

// stamp reads the present stamp: one request, whatever the number of rules.
func (b *Backend) stamp(ctx context.Context) (stamp, error) {
	if b.variant == legacyVariant {
		return legacyStamp()
	}
	g, err := b.run.generation(ctx)
	return stamp{generation: g, known: true}, err
}

// undisturbed reports whether nobody has written since our last write. Of the
// legacy tables that can't be said: their sizes stay when a rule is edited.
func (b *Backend) undisturbed(now stamp) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.generation != 0 && now == b.settled
}

// settle notes the stamp after an Apply that began at before, and that what was
// written in between is ours if nobody else wrote.
func (b *Backend) settle(ctx context.Context, before stamp) error {
	now, err := b.stamp(ctx)
	if err != nil {
		return err
	}
	var writes uint32
	for _, p := range b.planes {
		writes += p.writes
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	disturbed := b.variant == nftVariant && now.generation != before.generation+writes
	if disturbed {
		b.settled = stamp{}
		return nil
	}
	b.settled = now
	if writes > 0 {
		b.own = append(b.own, span{before.generation, now.generation})
		b.own = b.own[max(0, len(b.own)-spansKept):]
	}
	return nil
}

// ours reports whether a generation was made by us.
func (b *Backend) ours(generation uint32) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.own {
		if generation-s.after-1 < s.last-s.after { // the counter may wrap around
			return true
		}
	}
	return false
}

// netlinkTimeout bounds the wait for an answer that the kernel gives at once.
const netlinkTimeout = 5 * time.Second

// generation asks for the number of transactions that nf_tables has committed,
// in the calling thread's network namespace.
func generation(ctx context.Context) (uint32, error) {
	socket, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return 0, fmt.Errorf("asking for the ruleset's generation: %w", err)
	}
	defer func() { _ = socket.Close() }()
	deadline, ok := ctx.Deadline()
	if limit := time.Now().Add(netlinkTimeout); !ok || limit.Before(deadline) {
		deadline = limit
	}
	if err := socket.SetDeadline(deadline); err != nil {
		return 0, fmt.Errorf("asking for the ruleset's generation: %w", err)
	}
	return transactions.Generation(socket)
}
