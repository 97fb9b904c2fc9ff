package iptables

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip/internal/transactions"
)

const (
	// patience bounds that wait where the tables never are quiet.
	patience = 1500 * time.Millisecond
	// pollTime is how often the legacy tables' sizes are looked at: there are no
	// notifications of them.
	pollTime = 400 * time.Millisecond
)

// Watch implements [vip.Watcher]. With nf_tables it listens to the kernel's
// notifications of what happens to our chains and to those that lead there;
// the legacy tables it asks for their sizes.
func (b *Backend) Watch(ctx context.Context, drift func()) error {
	v, err := b.watched(ctx)
	if err != nil {
		return err
	}
	if v == legacyVariant {
		return b.poll(ctx, drift)
	}
	n, err := transactions.Listen()
	if err != nil {
		return err
	}
	return n.Follow(ctx, &follower{backend: b}, drift)
}

// watched is the variant to watch: the one that Apply uses, as far as that is
// known already.
func (b *Backend) watched(ctx context.Context) (variant, error) {
	if b.forced != "" {
		return b.forced, nil
	}
	c, err := pickVariant(ctx, b.run)
	return c.variant, err
}

// poll reports drift when the sizes are others than after our last write, and
// the same as at the look before: then the flush has ended.
func (b *Backend) poll(ctx context.Context, drift func()) error {
	ticker := time.NewTicker(pollTime)
	defer ticker.Stop()
	var last, reported stamp
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now, err := legacyStamp()
		if err != nil {
			return err
		}
		b.mu.Lock()
		settled := b.settled
		b.mu.Unlock()
		switch {
		case b.applying.Load() || !settled.known || now == settled:
			reported = stamp{}
		case now == last && now != reported:
			reported = now
			drift()
		}
		last = now
	}
}

// follower is a [transactions.Listener] to what others do to our chains. Another
// process writes them for us, so whose a transaction is shows by its generation.
type follower struct {
	backend *Backend
	touched bool     // the transaction being read concerns us
	pending []uint32 // transactions that do
	missed  bool     // there were too many to read
	first   time.Time
}

// Due is when the tables have been quiet for long enough.
func (f *follower) Due() time.Time {
	if f.first.IsZero() {
		return time.Time{}
	}
	quiet := time.Now().Add(transactions.Settle)
	if limit := f.first.Add(patience); limit.Before(quiet) && limit.After(time.Now()) {
		return limit
	}
	return quiet
}

func (f *follower) begin(now time.Time) {
	if f.first.IsZero() {
		f.first = now
	}
}

// Missed has the rules looked at.
func (f *follower) Missed(now time.Time) {
	f.missed = true
	f.begin(now)
}

// Read notes the transactions that concern us.
func (f *follower) Read(messages []netlink.Message, now time.Time) {
	for _, m := range messages {
		f.touched = f.touched || concerns(m)
		if id, ok := transactions.GenerationOf(m); ok {
			if f.touched {
				f.pending = append(f.pending, id)
				f.begin(now)
			}
			f.touched = false
		}
	}
}

// Judge judges what is pending: it is drift unless we wrote it. While Apply
// runs that can't be said yet.
func (f *follower) Judge(ctx context.Context) bool {
	if f.backend.applying.Load() {
		return false
	}
	others := slices.ContainsFunc(f.pending, func(id uint32) bool { return !f.backend.ours(id) })
	if f.missed {
		now, err := f.backend.run.generation(ctx)
		others = err != nil || !f.backend.undisturbed(stamp{generation: now, known: true})
	}
	f.pending, f.missed, f.first = nil, false, time.Time{}
	return others
}

// concerns reports whether a notification is about one of our chains, one of
// those that lead to ours, or a table as a whole.
func concerns(m netlink.Message) bool {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) == 0 {
		return false
	}
	family := m.Data[0]
	if family != unix.NFPROTO_IPV4 && family != unix.NFPROTO_IPV6 {
		return false
	}
	nameAt := uint16(0)
	switch m.Header.Type & 0xff {
	case unix.NFT_MSG_DELTABLE:
		return true
	case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
		nameAt = unix.NFTA_RULE_CHAIN
	case unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN:
		nameAt = unix.NFTA_CHAIN_NAME
	default:
		return false
	}
	return ourTable(m, nameAt)
}

func ourTable(m netlink.Message, nameAt uint16) bool {
	const tableAt = 1 // NFTA_RULE_TABLE, NFTA_CHAIN_TABLE
	a, err := transactions.Attributes(m)
	if err != nil {
		return false
	}
	var inTable, inChain bool
	for a.Next() {
		switch a.Type() {
		case tableAt:
			name := a.String()
			inTable = name == filterTable.String() || name == natTable.String()
		case nameAt:
			name := a.String()
			inChain = strings.HasPrefix(name, prefix) || slices.Contains(hookChains, name)
		}
	}
	return inTable && inChain
}

// hookChains are the kernel's chains that lead to ours.
var hookChains = []string{"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}
