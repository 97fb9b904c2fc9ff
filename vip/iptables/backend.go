package iptables

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"signpost/vip"
	"signpost/vip/sysctl"
)

// Config says how a [Backend] works. The zero value is good.
type Config struct {
	// Log gets what the backend has to say; nil: nothing.
	Log *slog.Logger
	// Variant is "nft" or "legacy"; empty: the one that this machine uses (T-09).
	Variant string

	run runner // nil: real processes
}

// Backend programs iptables and ip6tables. Its methods are for one goroutine,
// but for Watch. Make one with [New].
type Backend struct {
	log     *slog.Logger
	forced  variant
	run     runner
	variant variant // empty: not chosen yet
	choice  choice
	planes  [2]*plane

	// What the watch has to know of our own writes.
	applying atomic.Bool
	mu       sync.Mutex
	settled  stamp // of the tables after our last write; zero: unknown
	own      []span
}

var (
	_ vip.Backend = (*Backend)(nil)
	_ vip.Watcher = (*Backend)(nil)
)

// New returns a backend for the network namespace that the calling thread is
// in. It runs no command before the first call.
func New(cfg Config) *Backend {
	b := &Backend{log: cfg.Log, forced: variant(cfg.Variant), run: cfg.run}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.run == nil {
		b.run = processes{}
	}
	return b
}

// Name implements [vip.Backend].
func (b *Backend) Name() string { return "iptables" }

// Apply implements [vip.Backend].
func (b *Backend) Apply(ctx context.Context, have, want *vip.State) error {
	b.applying.Store(true)
	defer b.applying.Store(false)
	if err := b.open(ctx); err != nil {
		return err
	}
	before, err := b.stamp(ctx)
	if err != nil {
		return err
	}
	failed := map[vip.Frontend]error{}
	var errs []error
	for _, p := range b.planes {
		p.writes = 0
		if p.broken != nil || p.lacks.affinity != nil {
			p.try(ctx, b.run, b.choice) // that may have changed
		}
		a := application{plane: p, have: have, want: want, failed: map[vip.Frontend]error{}, undisturbed: b.undisturbed(before), log: b.log}
		if err := a.apply(ctx); err != nil {
			p.ledger = nil
			errs = append(errs, p.described(err))
		}
		p.stuck = a.failed
		maps.Copy(failed, a.failed)
	}
	errs = append(errs, b.settle(ctx, before))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.prepare(want.Node())
	if len(failed) > 0 {
		return &vip.PartialError{Failed: failed}
	}
	return nil
}

// prepare makes the kernel route to localhost what node ports there need, once
// the rules that keep others out are written (O-05).
func (b *Backend) prepare(node *vip.Node) {
	if !answersOnLocalhost(node) {
		return
	}
	// What can't be set is logged there; it costs node ports on localhost.
	_ = sysctl.Ensure(sysctl.Root, []sysctl.Setting{{
		Name: "net/ipv4/conf/all/route_localnet", Value: 1,
		Why: "node ports answer on 127.0.0.1",
	}}, b.log)
}

// application is one Apply on one family.
type application struct {
	plane       *plane
	have, want  *vip.State
	undisturbed bool // nobody but us has written since the last Apply
	failed      map[vip.Frontend]error
	log         *slog.Logger
}

func (a *application) apply(ctx context.Context) error {
	p, node := a.plane, a.want.Node()
	if p.broken != nil {
		for v := range a.mine() {
			a.failed[v.Frontend] = p.broken
		}
		return nil
	}
	if err := checkNode(node); err != nil {
		return err
	}
	known := p.ledger != nil && p.ledger.node.Equal(node)
	switch {
	case known && a.have != nil:
		return a.increment(ctx, a.changes())
	case known && a.undisturbed:
		return a.increment(ctx, a.ledgerSteps())
	}
	return a.adopt(ctx)
}

// increment writes the steps alone; if the kernel won't have them, it looks.
func (a *application) increment(ctx context.Context, steps []step) error {
	err := a.plane.increment(ctx, steps, healthPorts(a.want))
	if errors.Is(err, errDisturbed) {
		a.log.Debug("looking at all rules after a refusal", "err", err)
		return a.adopt(ctx)
	}
	return err
}

func (a *application) adopt(ctx context.Context) error {
	before := func(vip.Frontend) *vip.VirtualServer { return nil }
	if a.plane.ledger != nil {
		before = a.plane.ledger.get
	}
	clear(a.failed)
	var steps []step
	for v := range a.mine() {
		steps = append(steps, a.step(v.Frontend, v))
	}
	settings := readSettings()
	settings.randomFully = a.plane.tool.randomFully
	l := newLedger(a.plane.family, a.want.Node(), settings)
	l.health = healthPorts(a.want)
	return a.plane.adopt(ctx, l, steps, before, a.failed)
}

// healthPorts lists the health-check node ports of all services, in order.
func healthPorts(s *vip.State) []uint16 {
	var ports []uint16
	for _, p := range s.Plans() {
		if p.HealthCheck.Port != 0 {
			ports = append(ports, p.HealthCheck.Port)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// mine yields the family's wanted virtual servers.
func (a *application) mine() func(yield func(*vip.VirtualServer) bool) {
	return func(yield func(*vip.VirtualServer) bool) {
		for v := range a.want.All() {
			if v.Frontend.Is6() == a.plane.family.v6 && !yield(v) {
				return
			}
		}
	}
}

// changes lists what a change of state means for the tables, and what is left
// over from frontends that failed before.
func (a *application) changes() []step {
	var steps []step
	for before, after := range vip.Changes(a.have, a.want) {
		f := frontendOf(before, after)
		if f.Is6() == a.plane.family.v6 {
			steps = append(steps, a.step(f, after))
		}
	}
	for f := range a.plane.stuck {
		if a.have.Get(f) == nil && a.want.Get(f) == nil {
			steps = append(steps, a.step(f, nil))
		}
	}
	return steps
}

// ledgerSteps leads from what the ledger holds to what is wanted.
func (a *application) ledgerSteps() []step {
	var steps []step
	for v := range a.mine() {
		if a.plane.ledger.get(v.Frontend) != v {
			steps = append(steps, a.step(v.Frontend, v))
		}
	}
	for _, members := range a.plane.ledger.members {
		for f := range members {
			if a.want.Get(f) == nil {
				steps = append(steps, a.step(f, nil))
			}
		}
	}
	return steps
}

// step leads to a virtual server, or to none if it can't be had here.
func (a *application) step(f vip.Frontend, v *vip.VirtualServer) step {
	if v == nil {
		return step{frontend: f}
	}
	err := check(v)
	if err == nil {
		err = a.plane.lacks.of(v)
	}
	if err != nil {
		a.failed[f] = err
		return step{frontend: f}
	}
	return step{f, v}
}

func frontendOf(before, after *vip.VirtualServer) vip.Frontend {
	if after != nil {
		return after.Frontend
	}
	return before.Frontend
}
