package ipvs

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// change is one concrete frontend's way from what is there to what is wanted.
type change struct {
	at            vip.Frontend
	before, after *compiled
	err           error // why after could not be had
}

// Sizes of the pieces in which changes are carried out. Servers go in small
// ones, so that the first are reachable long before the last exist (B25).
const (
	rulesAtOnce   = 5000
	serversAtOnce = 200
)

// concrete lists the addresses at which a frontend of the state is served.
func concrete(f vip.Frontend, node *vip.Node) []vip.Frontend {
	if !f.IsNodePort() {
		return []vip.Frontend{f}
	}
	var list []vip.Frontend
	for _, a := range node.NodePortAddrs {
		if a.Is6() == f.Is6() {
			list = append(list, vip.Frontend{Addr: a, Port: f.Port, Protocol: f.Protocol})
		}
	}
	return list
}

// serverAt returns the virtual server that answers at a concrete frontend: the
// one of the very address, else the node port if the address has them.
func serverAt(want *vip.State, at vip.Frontend) *vip.VirtualServer {
	if v := want.Get(at); v != nil {
		return v
	}
	if want.Kinds(at.Addr).Captured() || !slices.Contains(want.Node().NodePortAddrs, at.Addr) {
		return nil
	}
	return want.Get(vip.NodePortFrontend(at.Is6(), at.Port, at.Protocol))
}

// changed lists what differs between the ledger and what is wanted, at the
// cost of the difference. Not ok: too much may have changed to tell.
func (b *Backend) changed(have, want *vip.State) ([]*change, bool) {
	for a, kinds := range vip.AddrChanges(have, want) {
		if kinds.Before.Captured() != kinds.After.Captured() && slices.Contains(want.Node().NodePortAddrs, a) {
			return nil, false // all node ports there come or go
		}
	}
	var list []*change
	seen := map[vip.Frontend]bool{}
	add := func(at vip.Frontend) {
		if !seen[at] {
			seen[at] = true
			list = append(list, b.changeAt(want, at)...)
		}
	}
	for before, after := range vip.Changes(have, want) {
		if after == nil {
			after = before
		}
		for _, at := range concrete(after.Frontend, want.Node()) {
			add(at)
		}
	}
	for at := range b.failed {
		add(at)
	}
	return list, true
}

// changeAt returns the change at one frontend, if there is any.
func (b *Backend) changeAt(want *vip.State, at vip.Frontend) []*change {
	before, v := b.ledger[at], serverAt(want, at)
	switch {
	case v == nil && before == nil:
		delete(b.failed, at)
		return nil
	case v == nil:
		return []*change{{at: at, before: before}}
	case before != nil && before.source == v:
		return nil
	}
	return []*change{{at: at, before: before, after: b.compiler.compile(at, v)}}
}

// run carries out changes.
//
//  1. what rules say about the servers: SNAT, source ranges, who owns them;
//     and whoever has no endpoints now is turned away
//  2. IPVS servers and endpoints are added, addresses bound
//  3. packets are let in
//  4. endpoints, servers, addresses and rules that are not wanted go
//
// So nothing is reachable before it is masqueraded and filtered (I-09), and
// adds come before deletes.
func (b *Backend) run(ctx context.Context, list []*change) error {
	for part := range slices.Chunk(list, rulesAtOnce) {
		if err := b.prepare(ctx, part); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(list, serversAtOnce) {
		if err := b.letIn(ctx, part); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(list, rulesAtOnce) {
		if err := b.retire(ctx, part); err != nil {
			return err
		}
	}
	return partial(b.settle(list))
}

func (b *Backend) prepare(ctx context.Context, list []*change) error {
	batch := b.rules.batch()
	for _, c := range list {
		if c.after == nil {
			continue
		}
		for _, elements := range [][]ruleset.Element{c.after.standing, c.after.ranges, c.after.gates} {
			b.rules.use(elements, 1)
		}
		if c.before != nil { // an overlap of old and new would be refused
			dropAll(batch, c.before.ranges)
		}
		batch.put(c.after.standing...)
		batch.put(c.after.ranges...)
		for _, gate := range c.after.gates {
			if early(batch, c.after, gate) {
				batch.put(gate)
			}
		}
	}
	return b.rules.commit(ctx, batch)
}

// early reports whether a gate may be set before IPVS is ready for what it
// lets in. What turns packets away may. What says that a packet is to be
// masqueraded has to, where packets come in any case; but not at a cluster
// address, where until then the packet would be refused, and not where it
// replaces a refusal.
func early(b *batch, c *compiled, gate ruleset.Element) bool {
	now := b.chainAt(gate.Slot())
	switch {
	case gate.Chain == "": // captured
		return false
	case closes(gate.Chain):
		return true
	case now == "":
		return c.source.Kind != vip.KindClusterIP
	default:
		return !closes(now)
	}
}

// letIn makes IPVS ready and then lets packets in.
func (b *Backend) letIn(ctx context.Context, list []*change) error {
	batch := b.rules.batch()
	for _, c := range list {
		if c.before != nil {
			dropAll(batch, c.before.gates)
		}
		if c.after == nil {
			continue
		}
		if c.err = b.serve(ctx, c.after); c.err == nil {
			batch.put(c.after.gates...)
			continue
		}
		if !errors.As(c.err, new(refusalError)) {
			return c.err
		}
		dropAll(batch, c.after.gates)
	}
	return b.rules.commit(ctx, batch)
}

// serve makes IPVS serve a frontend and its address local.
func (b *Backend) serve(ctx context.Context, c *compiled) error {
	for _, s := range c.servers {
		if err := b.planes.servers.ensure(ctx, s); err != nil {
			return err
		}
	}
	switch c.source.Kind {
	case vip.KindClusterIP:
		return b.planes.addresses.bind(c.at.Addr)
	case vip.KindExternalIP, vip.KindLoadBalancer:
		return b.planes.addresses.capturable(c.at.Addr)
	}
	return nil
}

// retire removes what is not wanted any more.
func (b *Backend) retire(ctx context.Context, list []*change) error {
	batch := b.rules.batch()
	for _, c := range list {
		if err := b.retireServers(ctx, c); err != nil {
			return err
		}
		unused := c.leftBehind()
		b.rules.use(unused, -1)
		for _, e := range unused {
			if b.rules.users[e.Slot()] == 0 {
				batch.drop(e.Slot())
			}
		}
		if err := b.unbindUnused(c.at.Addr); err != nil {
			return err
		}
	}
	return b.rules.commit(ctx, batch)
}

// leftBehind lists the elements that a change needs no longer.
func (c *change) leftBehind() []ruleset.Element {
	var list []ruleset.Element
	if c.before != nil {
		list = slices.Concat(list, c.before.standing, c.before.ranges, c.before.gates)
	}
	if c.err != nil {
		list = slices.Concat(list, c.after.standing, c.after.ranges, c.after.gates)
	}
	return list
}

func (b *Backend) retireServers(ctx context.Context, c *change) error {
	wanted := map[serverKey]bool{}
	if c.err == nil {
		for _, s := range c.after.allServers() {
			wanted[s.key] = true
			if err := b.planes.servers.prune(ctx, s); err != nil {
				return err
			}
		}
	}
	for _, s := range slices.Concat(c.before.allServers(), c.after.allServers()) {
		if wanted[s.key] {
			continue
		}
		if err := b.planes.servers.remove(ctx, s.key); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiled) allServers() []server {
	if c == nil {
		return nil
	}
	return c.servers
}

// unbindUnused takes an address back when no cluster address of a service is
// at it any more.
func (b *Backend) unbindUnused(a netip.Addr) error {
	slot := ruleset.Slot{Set: setsOf[ruleset.FamilyOf(a.Is6())].clusterIPs, Key: addressKey(a)}
	if !b.planes.addresses.held[a] || b.rules.users[slot] > 0 {
		return nil
	}
	return b.planes.addresses.unbind(a)
}

// settle enters what was done in the ledger and returns what failed.
func (b *Backend) settle(list []*change) map[vip.Frontend]error {
	failed := map[vip.Frontend]error{}
	for _, c := range list {
		b.releaseMarks(c)
		switch {
		case c.err != nil:
			failed[c.after.source.Frontend] = c.err
			b.failed[c.at] = true
			delete(b.ledger, c.at)
		case c.after == nil:
			delete(b.failed, c.at)
			delete(b.ledger, c.at)
		default:
			delete(b.failed, c.at)
			b.ledger[c.at] = c.after
		}
	}
	return failed
}

// releaseMarks gives back the numbers that a frontend has no use for.
func (b *Backend) releaseMarks(c *change) {
	for _, source := range vip.Sources {
		k := markKey{c.at, source}
		if _, has := b.compiler.marks.ids[k]; has && (c.after == nil || c.err != nil || !c.after.marks(source)) {
			b.compiler.marks.release(k)
		}
	}
}

// marks reports whether packets from the source go by a mark.
func (c *compiled) marks(source vip.Source) bool {
	chain := markChain(familyOf(c.at), source)
	return slices.ContainsFunc(c.gates, func(e ruleset.Element) bool { return e.Chain == chain })
}

func dropAll(b *batch, elements []ruleset.Element) {
	for _, e := range elements {
		b.drop(e.Slot())
	}
}
