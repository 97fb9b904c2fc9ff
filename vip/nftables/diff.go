package nftables

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
	"signpost/vip/sysctl"
)

var _ vip.Differ = (*Backend)(nil)

// Diff implements [vip.Differ]. It goes the way of an adoption, on a socket and
// a ledger of its own, and stops short of every commit.
func (b *Backend) Diff(ctx context.Context, want *vip.State) ([]vip.Difference, error) {
	k, err := ruleset.Open(tableName, allSets)
	if err != nil {
		return nil, err
	}
	defer func() { _ = k.Close() }()
	found, usable, err := look(ctx, k)
	if err != nil {
		return nil, err
	}
	d := &differ{want: want, backend: &Backend{log: b.log, kernel: k, ledger: newLedger(found), node: want.Node()}}
	if !usable {
		d.add(vip.Missing, "table inet "+tableName+" is missing, or of another shape")
		found = nil
	}
	d.compare(found)
	vip.SortDifferences(d.list)
	return d.list, nil
}

// differ collects differences. Its backend never commits.
type differ struct {
	want    *vip.State
	backend *Backend
	list    []vip.Difference
}

func (d *differ) add(kind vip.DifferenceKind, text string) {
	d.list = append(d.list, vip.Difference{Kind: kind, Text: text})
}

// compare takes the steps of an adoption, in its order. Without a table, all
// that follows from the frontends goes without saying.
func (d *differ) compare(found *contents) {
	node := d.want.Node()
	if found != nil {
		d.shared(found.repair(node, sysctl.LiberalConntrack()))
	}
	steps := d.backend.ledgerSteps(d.want)
	for _, s := range steps {
		d.step(s)
	}
	steps = d.backend.withoutUnsupported(steps, map[vip.Frontend]error{})
	t, _ := d.backend.ledger.plan(steps, node.Detector)
	if found == nil {
		return
	}
	d.shared(t)
	d.shared(found.leftovers(d.backend.ledger))
}

// step describes what one frontend lacks or has too much.
func (d *differ) step(s step) {
	switch {
	case s.before == nil:
		v := s.after.server
		d.list = append(d.list, vip.Difference{Kind: vip.Missing, Frontend: v.Frontend, Owner: v.Owner, Text: "is missing"})
	case s.after == nil:
		d.list = append(d.list, vip.Difference{Kind: vip.Unwanted, Frontend: s.frontend, Text: "nobody wants it"})
	default:
		before, _ := s.before.elements()
		after, _ := s.after.elements()
		for _, text := range describe(before, after) {
			d.list = append(d.list, vip.Difference{Kind: vip.Other, Frontend: s.frontend, Owner: s.after.server.Owner, Text: text})
		}
	}
}

// describe says in words how a frontend's elements differ.
func describe(before, after []ruleset.Element) []string {
	old, now := bySlot(before), bySlot(after)
	var list []string
	displaced := false
	for s, e := range now {
		was, exists := old[s]
		switch {
		case exists && was == e:
		case e.Chain != "" && exists:
			list = append(list, "leads to chain "+was.Chain+" instead of "+e.Chain)
		case e.Set.Intervals:
			list = append(list, "a source range is missing or another one")
		case e.Chain != "":
			list = append(list, "leads nowhere")
		default:
			displaced = true
		}
	}
	for s := range old {
		if _, wanted := now[s]; !wanted {
			displaced = displaced || !s.Set.Intervals
			if s.Set.Intervals {
				list = append(list, "a source range is not wanted")
			}
		}
	}
	if endpoints := vip.DiffAddrPorts(endpointsIn(before), endpointsIn(after)); len(endpoints) > 0 {
		return append(list, endpoints...)
	}
	if displaced {
		list = append(list, "its endpoints are in the wrong places")
	}
	return list
}

func bySlot(elements []ruleset.Element) map[ruleset.Slot]ruleset.Element {
	m := make(map[ruleset.Slot]ruleset.Element, len(elements))
	for _, e := range elements {
		m[e.Slot()] = e
	}
	return m
}

func endpointsIn(elements []ruleset.Element) map[netip.AddrPort]bool {
	set := map[netip.AddrPort]bool{}
	for _, e := range elements {
		if ap, ok := parseEndpoint(e.Set.Family, e.Value); ok {
			set[ap] = true
		}
	}
	return set
}

// shared describes what a transaction would do to what belongs to no frontend.
func (d *differ) shared(t *ruleset.Transaction) {
	for _, c := range t.Chains {
		d.add(vip.Missing, "chain "+c.Name+" is missing, or holds other rules")
	}
	for _, name := range t.Unmake {
		d.add(vip.Unwanted, "chain "+name+" is not used")
	}
	for _, e := range t.Add {
		if !ofFrontend(e) {
			d.add(vip.Missing, words(e)+" is missing")
		}
	}
	for _, e := range t.Del {
		if !ofFrontend(e) {
			d.add(vip.Unwanted, words(e)+" is not used")
		}
	}
}

func ofFrontend(e ruleset.Element) bool {
	_, ok := frontendIn(e)
	return ok
}

// words names an element of a set of addresses or ports.
func words(e ruleset.Element) string {
	if e.Set == setsOf[e.Set.Family].ports && len(e.Key) >= 2 {
		return fmt.Sprintf("port %d in set %s", binary.BigEndian.Uint16([]byte(e.Key)), e.Set.Name)
	}
	addr, _ := netip.AddrFromSlice([]byte(e.Key[:min(len(e.Key), e.Set.Family.AddrLen())]))
	return "address " + addr.String() + " in set " + e.Set.Name
}
