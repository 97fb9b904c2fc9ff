package conformance

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// Name, Probe, Apply and Cleanup make a driver a [vip.Backend], for a controller.
func (d *driver) Name() string { return d.backend.Name() }

// Probe is part of [vip.Backend].
func (d *driver) Probe(ctx context.Context) error {
	return d.on(func() error { return d.backend.Probe(ctx) })
}

// Apply is part of [vip.Backend].
func (d *driver) Apply(ctx context.Context, have, want *vip.State) error {
	return d.on(func() error { return d.backend.Apply(ctx, have, want) })
}

// Cleanup is part of [vip.Backend].
func (d *driver) Cleanup(ctx context.Context) error {
	return d.on(func() error { return d.backend.Cleanup(ctx) })
}

// watching is a driver whose backend notices what others do.
type watching struct{ *driver }

// Watch is part of [vip.Watcher].
func (w watching) Watch(ctx context.Context, drift func()) error {
	return w.on(func() error { return w.backend.(vip.Watcher).Watch(ctx, drift) })
}

// program is a controller with its backend, as the server runs it.
type program struct {
	*vip.Controller
	driver *driver
	stop   func()
}

// launch runs a program on the node until it is stopped, at the latest at the
// end of the test, and waits until its dataplane is as the store says.
func (r *runner) launch(t *testing.T, store *discovery.Store, at *vip.Node) *program {
	t.Helper()
	d := r.start(t, node)
	var backend vip.Backend = d
	if _, ok := d.backend.(vip.Watcher); ok {
		backend = watching{d}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	p := &program{driver: d, Controller: vip.NewController(vip.Config{
		Desired: store, Nodes: vip.NewCell(at), Backend: backend, Log: slog.New(slog.DiscardHandler), SyncPeriod: r.suite.SyncPeriod,
	})}
	go func() { ended <- p.Run(ctx) }()
	stopped := false
	p.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("running: %v", err)
		}
	}
	t.Cleanup(p.stop)
	p.await(t, store.Current().Revision)
	return p
}

// await waits until a revision is in the dataplane.
func (p *program) await(t *testing.T, revision uint64) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		s := p.Status()
		if s.Applied != nil && s.LastError == nil && s.Snapshot.Revision >= revision {
			return
		}
		select {
		case <-p.Changed(s):
		case <-limit:
			t.Fatalf("revision %d is not applied after a minute: %+v", revision, s)
		}
	}
}

// worldStore is a store with the services of a feature, in all variants.
func worldStore(t *testing.T, f feature) (*discovery.Store, *vip.Node) {
	t.Helper()
	world, err := viptest.ParseWorld(f.text())
	if err != nil {
		t.Fatal(err)
	}
	store := discovery.NewStore()
	store.Update(func(tx *discovery.Tx) {
		for _, s := range world.Snapshot.Services.All() {
			tx.PutService(s)
		}
		tx.MarkSynced()
	})
	return store, world.Node
}
