package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"signpost/vip"
)

var _ vip.Differ = (*Backend)(nil)

// Diff implements [vip.Differ]. It goes the way of an adoption up to what would
// be written, with commands and ledgers of its own. Rules are compared chain by
// chain: a chain holds those of one frontend or of a few.
func (b *Backend) Diff(ctx context.Context, want *vip.State) ([]vip.Difference, error) {
	own := New(Config{Log: slog.New(slog.DiscardHandler), Variant: string(b.forced), run: b.run})
	if err := own.open(ctx); err != nil {
		return nil, err
	}
	var list []vip.Difference
	var errs []error
	for _, p := range own.planes {
		d := &differ{plane: p}
		if err := d.compare(ctx, want, own.log); err != nil {
			errs = append(errs, fmt.Errorf("comparing iptables for %s: %w", p.family.name(), err))
		}
		list = append(list, d.list...)
	}
	vip.SortDifferences(list)
	return list, errors.Join(errs...)
}

// differ collects the differences of one family.
type differ struct {
	plane *plane
	list  []vip.Difference
}

func (d *differ) add(kind vip.DifferenceKind, format string, args ...any) {
	text := d.plane.family.name() + " " + fmt.Sprintf(format, args...)
	d.list = append(d.list, vip.Difference{Kind: kind, Text: text})
}

func (d *differ) compare(ctx context.Context, want *vip.State, log *slog.Logger) error {
	p := d.plane
	a := application{plane: p, want: want, failed: map[vip.Frontend]error{}, log: log}
	if p.broken != nil {
		for v := range a.mine() {
			d.list = append(d.list, vip.Difference{Kind: vip.Missing, Frontend: v.Frontend, Owner: v.Owner, Text: p.broken.Error()})
		}
		return nil
	}
	settings := readSettings()
	settings.randomFully = p.tool.randomFully
	l := newLedger(p.family, want.Node(), settings)
	l.health = healthPorts(want)
	for _, t := range tables {
		f, err := p.tool.look(ctx, t)
		if err != nil {
			return err
		}
		l.chains[t] = f.chains
		for _, line := range f.repairs(jumpsOf(t)) {
			d.add(vip.Other, "table %s: the jumps into our chains differ: would run %q", t, line)
		}
	}
	touched := map[group]bool{}
	for v := range a.mine() {
		s := a.step(v.Frontend, v)
		l.move(s.frontend, s.to, touched)
	}
	for f, err := range a.failed {
		d.list = append(d.list, vip.Difference{Kind: vip.Missing, Frontend: f, Owner: want.Get(f).Owner, Text: err.Error()})
	}
	d.chains(l.plan(l.groups(), true))
	return nil
}

// chains describes what would be written and deleted.
func (d *differ) chains(c *change) {
	for _, t := range tables {
		users := map[string]string{}
		for g, names := range c.made[t] {
			for _, name := range names {
				users[name] = namesOf(c.ledger.servers(g))
			}
		}
		for _, ch := range c.writes[t] {
			kind, what := vip.Other, "holds other rules"
			if _, exists := c.ledger.chains[t][ch.name]; !exists {
				kind, what = vip.Missing, "is missing"
			}
			d.add(kind, "table %s: chain %s %s%s", t, ch.name, what, users[ch.name])
		}
		for _, name := range c.stale[t] {
			d.add(vip.Unwanted, "table %s: chain %s is not used", t, name)
		}
	}
}

// namesOf lists what a chain is for.
func namesOf(servers []*vip.VirtualServer) string {
	const most = 3
	var names []string
	for _, v := range servers[:min(len(servers), most)] {
		names = append(names, v.Frontend.String()+" "+v.Owner.String())
	}
	if more := len(servers) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ", for " + strings.Join(names, ", ")
}
