package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// When a mode that has the kernel translate addresses takes over from this one,
// its rules come before IPVS: new connections never get there. Those that IPVS
// carries go on if it is left alone. So the way out has three steps:
//
//  1. Yield, before the other mode's first rules: this node's own connections
//     don't need the cluster addresses any more (yield.go).
//  2. Quiesce, when the other mode's rules are in: ours hold on to what exists
//     and have no say in what is new (leaving, in this file).
//  3. Drain: endpoints, servers and addresses go when nothing uses them any more,
//     then all the rest.
//
// What is to be done follows from what the kernel holds, so any process can go
// on, or begin to serve again: then the next Apply adopts what is there.

const (
	// drainEvery is how often connections are counted, if that costs little.
	drainEvery = time.Second
	// drainShare bounds the part of the time that it may cost.
	drainShare = 20
)

// leaving are the chains that are not as they were while this mode served: no
// packet is sent to IPVS any more but those of connections that are known.
func leaving() []ruleset.Chain {
	hold := ruleset.Chain{Name: captureChain, Hook: beforeRouting}
	guarded := ruleset.Chain{Name: capturedChain, Hook: beforeIPVS, Rules: captured()}
	toGuard := ruleset.One(ruleset.GoTo(guardChain))
	for _, f := range ruleset.Families {
		route := append(ruleset.One(ruleset.InSet(setsOf[f].captured)), ruleset.ChangeMark(0, routeBit)...)
		hold.Rules = append(hold.Rules,
			ruleset.NewRule("was served here", f.IfFamily(), ruleset.IfKnown(), ruleset.IfToServer(), f.LoadFrontend(ruleset.First), route),
			captureErrors(f))
		// An address may be local for a while without being served here: the
		// node's own daemons must not answer (B17). Whatever the other mode
		// serves it has translated by now.
		address := ruleset.One(f.LoadDestination(ruleset.First), ruleset.InSet(setsOf[f].clusterIPs))
		guarded.Rules = append(guarded.Rules,
			ruleset.NewRule("was a service's", f.IfFamily(), address, ruleset.IfNew(), ruleset.IfUnknown(), toGuard),
			ruleset.NewRule("was a service's, for this node", f.IfFamily(), address, ruleset.IfNew(), ruleset.IfFromThisNode(), toGuard))
	}
	return append(giveUp(), ruleset.Chain{Name: preroutingChain, Hook: arrived}, ruleset.Chain{Name: outputChain, Hook: sent}, hold, guarded)
}

// giveUp are the late chains, empty: where this mode serves again, it begins
// with what another mode can be beside.
func giveUp() []ruleset.Chain { return opened(latest(skeleton(&vip.Node{}, false))) }

// Quiesce has this mode make way for another one whose rules are in place: it
// keeps what connections that IPVS carries need, and nothing else of the rules.
// It reports whether there may be such connections; whichever process made them.
func (b *Backend) Quiesce(ctx context.Context) (carries bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.unlearn()
	if err := b.lookBack(ctx); err != nil {
		b.forget()
		return false, err
	}
	if len(b.recorded()) == 0 {
		return false, nil
	}
	t := &ruleset.Transaction{Chains: leaving()}
	for slot, e := range b.rules.held {
		if !setsOf[ruleset.IPv4].lasting(slot.Set) && !setsOf[ruleset.IPv6].lasting(slot.Set) {
			t.Del = append(t.Del, e)
		}
	}
	return true, b.planes.table.Commit(ctx, t)
}

// lasting reports whether connections that exist need the set, or removing
// what is ours does.
func (s *familySets) lasting(set *ruleset.Set) bool {
	return set == s.owned || set == s.marks || set == s.captured || set == s.clusterIPs || set == s.ports
}

// lookBack learns what of ours the kernel holds, but for the IPVS servers.
func (b *Backend) lookBack(ctx context.Context) error {
	if err := b.reopen(); err != nil {
		return err
	}
	found, err := b.planes.table.Look(ctx, nil)
	if err != nil {
		return fmt.Errorf("looking for what IPVS still needs: %w", err)
	}
	b.rules.held = found.BySlot()
	b.planes.addresses.held, err = b.planes.addresses.routes.bound()
	return err
}

// unlearn has the next Apply look at everything.
func (b *Backend) unlearn() {
	b.ledger, b.rules.held = nil, nil
	if b.planes != nil {
		b.planes.servers.held, b.planes.servers.leaving = map[serverKey]*holding{}, map[leaver]time.Time{}
	}
}

// Drain returns nil when everything that this mode made is gone: after the last
// connection has ended, or after [Config].Drain. Until then it removes what no
// connection uses. If ctx ends first, the rest stays.
func (b *Backend) Drain(ctx context.Context) error {
	began := time.Now()
	for {
		round := time.Now()
		carrying, err := b.drainOnce(ctx)
		switch over := b.config.Drain > 0 && time.Since(began) >= b.config.Drain; {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !over:
			b.log.Debug("letting IPVS's connections end", "err", err)
		case over || carrying == 0:
			return b.Cleanup(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(max(drainEvery, drainShare*time.Since(round))):
		}
	}
}

// drainOnce removes what no connection uses and returns how many IPVS servers
// are left.
func (b *Backend) drainOnce(ctx context.Context) (carrying int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.unlearn()
	if err := b.lookBack(ctx); err != nil {
		b.forget()
		return 0, err
	}
	carry := map[serverKey]bool{}
	for key := range b.recorded() {
		idle, err := b.planes.servers.drainServer(ctx, key)
		if err != nil {
			b.forget()
			return 0, err
		}
		if !idle {
			carry[key] = true
		}
	}
	return len(carry), b.letGo(ctx, carry)
}

// recorded lists the IPVS servers that the sets say are ours.
func (b *Backend) recorded() map[serverKey]bool {
	keys := map[serverKey]bool{}
	for k, mark := range b.recordedMarks() {
		keys[byMark(k.at.Is6(), mark)] = true
	}
	for slot := range b.rules.held {
		for _, f := range ruleset.Families {
			if at, ok := parseFrontend(f, slot.Key); ok && slot.Set == setsOf[f].owned {
				keys[serverKey{frontend: at}] = true
			}
		}
	}
	return keys
}

// drainServer removes the server if it has no connections, and else the
// endpoints that have none; the others get no new ones.
func (s *servers) drainServer(ctx context.Context, key serverKey) (idle bool, err error) {
	present, err := s.kernel.destinations(ctx, key)
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) {
		return false, err
	}
	busy := false
	for _, d := range present {
		busy = busy || d.connections > 0
	}
	s.held[key] = &holding{weights: map[netip.AddrPort]int{}}
	if !busy {
		return true, s.remove(ctx, key)
	}
	for _, d := range present {
		l := leaver{key, d.to}
		s.held[key].weights[d.to] = d.weight
		if d.connections > 0 {
			err = s.retire(ctx, l)
		} else {
			err = s.discard(ctx, l)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// letGo removes addresses, and what the sets say, of servers that are gone.
func (b *Backend) letGo(ctx context.Context, carry map[serverKey]bool) error {
	u := b.uses(carry)
	for a := range b.planes.addresses.held {
		if u.addresses[a] {
			continue
		}
		if err := b.planes.addresses.unbind(a); err != nil {
			return err
		}
	}
	t := &ruleset.Transaction{}
	for slot, e := range b.rules.held {
		if !u.needs(slot) {
			t.Del = append(t.Del, e)
		}
	}
	return b.planes.table.Commit(ctx, t)
}

// uses is what servers that carry connections need, as the sets have it.
type uses struct {
	servers   map[string]bool // frontends that have a server by address
	frontends map[string]bool // and those, too, that have one by mark
	marks     map[markKey]bool
	addresses map[netip.Addr]bool
}

func (b *Backend) uses(carry map[serverKey]bool) uses {
	u := uses{servers: map[string]bool{}, frontends: map[string]bool{}, marks: map[markKey]bool{}, addresses: map[netip.Addr]bool{}}
	for key := range carry {
		if key.mark == 0 {
			u.servers[string(frontendKey(key.frontend))] = true
			u.frontends[string(frontendKey(key.frontend))], u.addresses[key.frontend.Addr] = true, true
		}
	}
	for k, mark := range b.recordedMarks() {
		if carry[byMark(k.at.Is6(), mark)] {
			u.marks[k] = true
			u.frontends[string(frontendKey(k.at))], u.addresses[k.at.Addr] = true, true
		}
	}
	return u
}

func (u uses) needs(slot ruleset.Slot) bool {
	for _, f := range ruleset.Families {
		switch s := setsOf[f]; slot.Set {
		case s.owned:
			return u.servers[slot.Key]
		case s.captured:
			return u.frontends[slot.Key]
		case s.marks:
			k, ok := parseMarkKey(f, slot.Key)
			return ok && u.marks[k]
		case s.ports:
			return len(u.frontends) > 0
		case s.clusterIPs:
			a, ok := netip.AddrFromSlice([]byte(slot.Key))
			return ok && u.addresses[a]
		}
	}
	return false
}
