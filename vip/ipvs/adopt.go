package ipvs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// adopt makes the kernel equal want without relying on what was written
// before: it looks, keeps what is right and writes the difference.
func (b *Backend) adopt(ctx context.Context, want *vip.State) error {
	if err := b.look(ctx, want.Node()); err != nil {
		return err
	}
	list := b.everything(want)
	if err := b.dropStaleRanges(ctx, list); err != nil {
		return err
	}
	err := b.run(ctx, list)
	var failure *vip.PartialError
	if err != nil && !errors.As(err, &failure) {
		return err
	}
	if err := b.rules.close(ctx); err != nil {
		return err
	}
	if err := b.sweep(ctx); err != nil {
		return err
	}
	return err
}

// look learns what the three parts of the kernel hold, and makes what depends
// on no Service.
func (b *Backend) look(ctx context.Context, node *vip.Node) error {
	b.settings()
	if err := b.rules.look(ctx, node); err != nil {
		return err
	}
	b.letPass()
	b.node = node
	b.compiler = compiler{scheduler: b.config.Scheduler, flags: b.flags, marks: b.foundMarks()}
	if err := b.planes.addresses.look(); err != nil {
		return err
	}
	return b.lookServers(ctx)
}

// letPass has the host's filter let packets to IPVS through. Where that can't be
// had, services work as far as the filter lets them.
func (b *Backend) letPass() {
	err := b.planes.passage.ensure()
	if err != nil && !b.passageFailed {
		b.log.Warn("a filter of this host may drop packets to services", "err", err)
	}
	b.passageFailed = err != nil
}

// lookServers learns of the IPVS servers that are ours.
func (b *Backend) lookServers(ctx context.Context) error {
	s := b.planes.servers
	list, err := s.kernel.servers(ctx)
	if err != nil {
		return err
	}
	held := make(map[serverKey]*holding, len(list))
	owned := b.ownedMarks()
	for _, l := range list {
		if s.held[l.key] == nil && !b.owns(l.key, owned) {
			continue
		}
		if held[l.key], err = s.read(ctx, l); err != nil {
			return err
		}
	}
	s.held = held
	for l := range s.leaving {
		if h := held[l.key]; h == nil || !h.has(l.to) {
			delete(s.leaving, l)
		}
	}
	return nil
}

func (h *holding) has(to netip.AddrPort) bool {
	_, ok := h.weights[to]
	return ok
}

// owns reports whether an IPVS server was made by this program (I-08): the
// sets say so, or its address is on our device.
func (b *Backend) owns(key serverKey, marks map[uint32]bool) bool {
	if key.mark != 0 {
		return marks[key.mark]
	}
	_, recorded := b.rules.held[ruleset.Slot{Set: setsOf[familyOf(key.frontend)].owned, Key: string(frontendKey(key.frontend))}]
	return recorded || b.planes.addresses.held[key.frontend.Addr]
}

// ownedMarks lists the marks that the sets record.
func (b *Backend) ownedMarks() map[uint32]bool {
	marks := map[uint32]bool{}
	for _, mark := range b.recordedMarks() {
		marks[mark] = true
	}
	return marks
}

// foundMarks gives everyone the number again that the sets record for them.
func (b *Backend) foundMarks() marks {
	m := newMarks()
	for k, mark := range b.recordedMarks() {
		m.take(k, mark>>idShift)
	}
	return m
}

func (b *Backend) recordedMarks() map[markKey]uint32 {
	found := map[markKey]uint32{}
	for slot, e := range b.rules.held {
		for _, f := range ruleset.Families {
			if slot.Set != setsOf[f].marks {
				continue
			}
			if k, ok := parseMarkKey(f, slot.Key); ok && len(e.Value) == 4 {
				found[k] = binary.NativeEndian.Uint32([]byte(e.Value))
			}
		}
	}
	return found
}

// parseMarkKey reads frontend . source.
func parseMarkKey(f *ruleset.Family, key string) (markKey, bool) {
	n := int(f.FrontendWords()) * 4
	if len(key) != n+4 {
		return markKey{}, false
	}
	at, ok := parseFrontend(f, key[:n])
	source := binary.NativeEndian.Uint32([]byte(key[n:]))
	return markKey{at, vip.Source(source)}, ok && source < uint32(len(vip.Sources))
}

// parseFrontend reads what frontendKey wrote.
func parseFrontend(f *ruleset.Family, key string) (vip.Frontend, bool) {
	n := int(f.AddrWords) * 4
	if len(key) != n+8 {
		return vip.Frontend{}, false
	}
	addr, _ := netip.AddrFromSlice([]byte(key[:n]))
	protocol, ok := protocolOf(key[n])
	return vip.Frontend{Addr: addr, Port: binary.BigEndian.Uint16([]byte(key[n+4:])), Protocol: protocol}, ok
}

// everything lists all that is wanted as changes, and begins a new ledger.
func (b *Backend) everything(want *vip.State) []*change {
	old := b.ledger
	b.ledger, b.failed = map[vip.Frontend]*compiled{}, map[vip.Frontend]bool{}
	var list []*change
	for v := range want.All() {
		for _, at := range concrete(v.Frontend, want.Node()) {
			if serverAt(want, at) != v {
				continue // another one has that address
			}
			c := old[at]
			if c == nil || c.source != v {
				c = b.compiler.compile(at, v)
			}
			list = append(list, &change{at: at, after: c})
		}
	}
	return list
}

// dropStaleRanges closes source ranges that nobody wants: the kernel would
// refuse new ones that overlap them.
func (b *Backend) dropStaleRanges(ctx context.Context, list []*change) error {
	wanted := map[ruleset.Element]bool{}
	for _, c := range list {
		for _, e := range c.after.ranges {
			wanted[e] = true
		}
	}
	batch := b.rules.batch()
	for slot, e := range b.rules.held {
		if slot.Set.Intervals && !wanted[e] {
			batch.drop(slot)
		}
	}
	return b.rules.commit(ctx, batch)
}

// sweep removes what is ours and nobody wants: first what lets packets in, last
// what says that it is ours.
func (b *Backend) sweep(ctx context.Context) error {
	unused := b.rules.unused()
	gates := b.rules.batch()
	for _, e := range unused {
		if setsOf[ruleset.IPv4].gate(e.Set) || setsOf[ruleset.IPv6].gate(e.Set) {
			gates.drop(e.Slot())
		}
	}
	if err := b.rules.commit(ctx, gates); err != nil {
		return err
	}
	if err := b.sweepServers(ctx); err != nil {
		return err
	}
	if err := b.planes.servers.reap(ctx, time.Now()); err != nil {
		return err
	}
	for a := range b.planes.addresses.held {
		if err := b.unbindUnused(a); err != nil {
			return err
		}
	}
	rest := b.rules.batch()
	dropAll(rest, unused)
	if err := b.rules.commit(ctx, rest); err != nil {
		return err
	}
	for k := range b.compiler.marks.ids {
		if c := b.ledger[k.at]; c == nil || !c.marks(k.source) {
			b.compiler.marks.release(k)
		}
	}
	return nil
}

func (b *Backend) sweepServers(ctx context.Context) error {
	wanted := map[serverKey]bool{}
	for _, c := range b.ledger {
		for _, s := range c.servers {
			wanted[s.key] = true
		}
	}
	for key := range b.planes.servers.held {
		if wanted[key] {
			continue
		}
		if err := b.planes.servers.remove(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// removeServers removes the IPVS servers that are ours, for Cleanup. Without
// our table only those on our device are known to be.
func (b *Backend) removeServers(ctx context.Context) error {
	found, err := b.planes.table.Look(ctx, nil)
	if err != nil {
		return fmt.Errorf("looking for IPVS servers to remove: %w", err)
	}
	b.rules.held = found.BySlot()
	bound, err := b.planes.addresses.routes.bound()
	if err != nil {
		return err
	}
	b.planes.addresses.held = bound
	if err := b.lookServers(ctx); err != nil {
		return err
	}
	var errs []error
	for key := range b.planes.servers.held {
		errs = append(errs, b.planes.servers.remove(ctx, key))
	}
	return errors.Join(errs...)
}
