package vip_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// rig is a controller with a backend that records its calls, inside a
// synctest bubble: all times are of the fake clock.
type rig struct {
	store      *discovery.Store
	node       *vip.Cell[vip.Node]
	backend    *recorder
	controller *vip.Controller
	start      time.Time
	stop       func()
}

// recorder is a fake that notes when it was called and with what, and can be
// told to fail or to hang.
type recorder struct {
	*viptest.Fake
	mu    sync.Mutex
	calls []call
	fail  func(have, want *vip.State) error
	hang  bool
}

type call struct {
	at   time.Time
	look bool
	want *vip.State
}

func (r *recorder) Apply(ctx context.Context, have, want *vip.State) error {
	r.mu.Lock()
	r.calls = append(r.calls, call{time.Now(), have == nil, want})
	fail, hang := r.fail, r.hang
	r.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if fail != nil {
		if err := fail(have, want); err != nil {
			return err
		}
	}
	return r.Fake.Apply(ctx, have, want)
}

func (r *recorder) set(fail func(have, want *vip.State) error, hang bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail, r.hang = fail, hang
}

// since returns the calls after the first n, as offsets from the start.
func (r *rig) calls(from int) (at []time.Duration, looks []bool) {
	r.backend.mu.Lock()
	defer r.backend.mu.Unlock()
	for _, c := range r.backend.calls[min(from, len(r.backend.calls)):] {
		at, looks = append(at, c.at.Sub(r.start)), append(looks, c.look)
	}
	return at, looks
}

func (r *rig) count() int {
	at, _ := r.calls(0)
	return len(at)
}

// newRig starts a controller on an empty store that is not synced.
func newRig(t *testing.T, change func(*vip.Config)) *rig {
	t.Helper()
	r := &rig{store: discovery.NewStore(), node: vip.NewCell(&vip.Node{Name: "n1"}), backend: &recorder{Fake: viptest.NewFake()}, start: time.Now()}
	config := vip.Config{Desired: r.store, Nodes: r.node, Backend: r.backend}
	if change != nil {
		change(&config)
	}
	r.controller = vip.NewController(config)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.controller.Run(ctx) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("running the controller: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		r.stop()
		for _, v := range r.backend.Violations() {
			t.Errorf("contract broken: %s", v)
		}
	})
	return r
}

// put stores services of a world and marks the store synced.
func (r *rig) put(t *testing.T, text string) {
	t.Helper()
	w := world(t, text)
	r.store.Update(func(tx *discovery.Tx) {
		for _, s := range w.Snapshot.Services.All() {
			tx.PutService(s)
		}
		tx.MarkSynced()
	})
	synctest.Wait()
}

func (r *rig) remove(name string) {
	r.store.Update(func(tx *discovery.Tx) { tx.DeleteService(key(name)) })
	synctest.Wait()
}

func wait(d time.Duration) {
	time.Sleep(d) // of the bubble's clock: no time passes
	synctest.Wait()
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { t.Parallel(); synctest.Test(t, f) })
}
