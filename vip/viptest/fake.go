package viptest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"signpost/vip"
)

// Fake is a backend whose kernel is a map that behaves like one: it refuses to
// add what exists and to change what doesn't, it counts what is asked of it,
// it answers packets, and it keeps what it holds when the backend's owner
// starts again. It also watches its caller: see [Fake.Violations].
//
// All methods may be called from any goroutine.
type Fake struct {
	kernel kernel
	busy   atomic.Bool

	mu         sync.Mutex
	stale      bool // another program has changed the kernel since the last look
	violations []string
	drift      map[*func()]struct{}
	sticky     map[stickyKey]stuck
	turn       int
}

var (
	_ vip.Backend = (*Fake)(nil)
	_ vip.Watcher = (*Fake)(nil)
)

type stickyKey struct {
	client netip.Addr
	to     vip.Frontend
}

type stuck struct {
	to    netip.AddrPort
	until time.Time
}

// NewFake returns an empty one.
func NewFake() *Fake {
	return &Fake{
		kernel: kernel{rules: map[vip.Frontend]rule{}},
		drift:  map[*func()]struct{}{}, sticky: map[stickyKey]stuck{},
	}
}

// FailWith makes the kernel ask before each operation whether it fails.
func (f *Fake) FailWith(fail func(Operation) error) {
	f.kernel.mu.Lock()
	defer f.kernel.mu.Unlock()
	f.kernel.fail = fail
}

// Name implements [vip.Backend].
func (f *Fake) Name() string { return "fake" }

// Probe implements [vip.Backend]: a map can always run.
func (f *Fake) Probe(context.Context) error { return nil }

// Apply implements [vip.Backend].
func (f *Fake) Apply(ctx context.Context, have, want *vip.State) error {
	if !f.busy.CompareAndSwap(false, true) {
		f.violate("Apply called while another call ran")
		return errors.New("applying: busy")
	}
	defer f.busy.Store(false)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("applying: %w", err)
	}
	if have == nil {
		return f.applyUnknown(want)
	}
	f.checkHave(have)
	if !want.Node().Equal(have.Node()) {
		if err := f.kernel.configure(want.Node()); err != nil {
			return err
		}
	}
	var w writer
	for before, after := range vip.Changes(have, want) {
		w.change(before, after)
	}
	return w.run(&f.kernel)
}

// applyUnknown looks, keeps what is right and writes the difference.
func (f *Fake) applyUnknown(want *vip.State) error {
	f.mu.Lock()
	f.stale = false
	f.mu.Unlock()
	there, node, err := f.kernel.list()
	if err != nil {
		return err
	}
	if node == nil || !want.Node().Equal(node) {
		if err := f.kernel.configure(want.Node()); err != nil {
			return err
		}
	}
	var w writer
	for v := range want.All() {
		old, exists := there[v.Frontend]
		if !exists || !old.equal(compile(v)) {
			w.puts = append(w.puts, v)
		}
		delete(there, v.Frontend)
	}
	for frontend := range there {
		w.removals = append(w.removals, frontend)
	}
	return w.run(&f.kernel)
}

// Cleanup implements [vip.Backend].
func (f *Fake) Cleanup(context.Context) error {
	own, _, err := f.kernel.list()
	if err != nil {
		return err
	}
	var w writer
	for frontend := range own {
		w.removals = append(w.removals, frontend)
	}
	return w.run(&f.kernel)
}

// writer collects what has to be written, so that all adds come before all
// deletes.
type writer struct {
	puts     []*vip.VirtualServer
	removals []vip.Frontend
}

func (w *writer) change(before, after *vip.VirtualServer) {
	if after == nil {
		w.removals = append(w.removals, before.Frontend)
		return
	}
	w.puts = append(w.puts, after)
}

func (w *writer) run(k *kernel) error {
	failed := map[vip.Frontend]error{}
	for _, v := range w.puts {
		if err := put(k, v); err != nil {
			failed[v.Frontend] = err
		}
	}
	slices.SortFunc(w.removals, vip.Frontend.Compare)
	for _, frontend := range w.removals {
		if err := k.remove(frontend); err != nil && !errors.Is(err, errMissing) {
			failed[frontend] = err
		}
	}
	if len(failed) > 0 {
		return &vip.PartialError{Failed: failed}
	}
	return nil
}

// put adds a rule, or replaces the one that an earlier failure left behind.
func put(k *kernel, v *vip.VirtualServer) error {
	err := k.add(v.Frontend, compile(v))
	if errors.Is(err, errExists) {
		return k.replace(v.Frontend, compile(v))
	}
	return err
}

// Watch implements [vip.Watcher].
func (f *Fake) Watch(ctx context.Context, drift func()) error {
	f.mu.Lock()
	f.drift[&drift] = struct{}{}
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	delete(f.drift, &drift)
	f.mu.Unlock()
	return nil
}
