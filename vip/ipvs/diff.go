package ipvs

import (
	"context"
	"fmt"
	"net/netip"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
	"signpost/vip/sysctl"
)

var _ vip.Differ = (*Backend)(nil)

// Diff implements [vip.Differ]. It looks as an adoption does, on sockets of its
// own, and writes nothing.
func (b *Backend) Diff(ctx context.Context, want *vip.State) ([]vip.Difference, error) {
	planes, err := b.open()
	if err != nil {
		return nil, err
	}
	own := &Backend{config: b.config, log: b.log, flags: b.flags, planes: planes}
	defer own.forget()
	found, err := planes.table.Look(ctx, skeleton(want.Node(), false))
	if err != nil {
		return nil, err
	}
	own.rules.conn, own.rules.held, own.rules.users = planes.table, found.BySlot(), map[ruleset.Slot]int{}
	if planes.addresses.held, err = planes.addresses.routes.bound(); err != nil {
		return nil, err
	}
	if err := own.lookServers(ctx); err != nil {
		return nil, err
	}
	own.compiler = compiler{scheduler: b.config.Scheduler, flags: b.flags, marks: own.foundMarks()}
	d := &differ{backend: own, servers: map[serverKey]bool{}}
	d.chains(found, want.Node())
	d.frontends(want)
	d.leftovers()
	vip.SortDifferences(d.list)
	return d.list, nil
}

// differ collects differences. Its backend only looks.
type differ struct {
	backend *Backend
	servers map[serverKey]bool // wanted
	list    []vip.Difference
}

func (d *differ) add(kind vip.DifferenceKind, text string) {
	d.list = append(d.list, vip.Difference{Kind: kind, Text: text})
}

func (d *differ) chains(found *ruleset.Contents, node *vip.Node) {
	if !found.Usable {
		d.add(vip.Missing, "table inet "+tableName+" is missing, or of another shape")
		return
	}
	for _, chain := range skeleton(node, sysctl.LiberalConntrack()) {
		if !found.Has(chain) {
			d.add(vip.Missing, "chain "+chain.Name+" is missing, or holds other rules")
		}
	}
}

// frontends compares each wanted frontend with what is there.
func (d *differ) frontends(want *vip.State) {
	for _, c := range d.backend.everything(want) {
		w := c.after
		for _, s := range w.servers {
			d.servers[s.key] = true
		}
		for _, elements := range [][]ruleset.Element{w.standing, w.ranges, w.gates} {
			d.backend.rules.use(elements, 1)
		}
		if d.backend.planes.servers.held[w.servers[0].key] == nil {
			d.about(w, vip.Missing, "is missing")
			continue
		}
		for _, s := range w.servers {
			d.server(w, s)
		}
		d.elements(w)
	}
}

func (d *differ) about(c *compiled, kind vip.DifferenceKind, text string) {
	d.list = append(d.list, vip.Difference{Kind: kind, Frontend: c.at, Owner: c.source.Owner, Text: text})
}

func (d *differ) server(c *compiled, s server) {
	held := d.backend.planes.servers.held[s.key]
	if held == nil {
		d.about(c, vip.Other, fmt.Sprintf("IPVS server %s is missing", s.key))
		return
	}
	if held.spec != s.spec {
		d.about(c, vip.Other, fmt.Sprintf("scheduler and affinity are %s instead of %s", held.spec, s.spec))
	}
	there, wanted := map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}
	for _, to := range s.endpoints {
		wanted[to] = true
	}
	for to, w := range held.weights {
		switch {
		case wanted[to] && w != weight:
			d.about(c, vip.Other, fmt.Sprintf("endpoint %s has weight %d instead of %d", to, w, weight))
			there[to] = true
		case wanted[to] || w != 0: // one with weight 0 is leaving, as it should
			there[to] = true
		}
	}
	for _, text := range vip.DiffAddrPorts(there, wanted) {
		d.about(c, vip.Other, text)
	}
}

func (d *differ) elements(c *compiled) {
	for _, elements := range [][]ruleset.Element{c.standing, c.ranges, c.gates} {
		for _, e := range elements {
			switch was, exists := d.backend.rules.held[e.Slot()]; {
			case !exists:
				d.about(c, vip.Other, "is missing in set "+e.Set.Name)
			case was != e && e.Chain != "":
				d.about(c, vip.Other, "leads to chain "+was.Chain+" instead of "+e.Chain+" in map "+e.Set.Name)
			case was != e:
				d.about(c, vip.Other, "is another one in set "+e.Set.Name)
			}
		}
	}
	if c.source.Kind == vip.KindClusterIP && !d.backend.planes.addresses.held[c.at.Addr] {
		d.about(c, vip.Other, "its address is not bound")
	}
}

// leftovers lists what is ours and nobody wants.
func (d *differ) leftovers() {
	planes := d.backend.planes
	for key := range planes.servers.held {
		switch {
		case d.servers[key]:
		case key.mark != 0:
			d.add(vip.Unwanted, fmt.Sprintf("IPVS server %s is not used", key))
		default:
			d.list = append(d.list, vip.Difference{Kind: vip.Unwanted, Frontend: key.frontend, Text: "nobody wants it"})
		}
	}
	for a := range planes.addresses.held {
		if slot := (ruleset.Slot{Set: setsOf[ruleset.FamilyOf(a.Is6())].clusterIPs, Key: addressKey(a)}); d.backend.rules.users[slot] == 0 {
			d.add(vip.Unwanted, "address "+a.String()+" is bound and not used")
		}
	}
	unused := map[string]int{}
	for _, e := range d.backend.rules.unused() {
		unused[e.Set.Name]++
	}
	for name, n := range unused {
		d.add(vip.Unwanted, fmt.Sprintf("%d elements of set %s are not used", n, name))
	}
}

// String returns "rr", "sh with flags 0x10" or "rr for 3h0m0s".
func (s serverSpec) String() string {
	text := s.scheduler
	if s.flags != 0 {
		text += fmt.Sprintf(" with flags %#x", s.flags)
	}
	if s.affinity > 0 {
		text += fmt.Sprintf(" for %s", s.affinity)
	}
	return text
}
