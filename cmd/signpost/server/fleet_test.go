package server

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"signpost/vip"
)

// leaver is a backend whose connections end when the test says so.
type leaver struct {
	vip.Backend
	ended chan struct{}

	mu   sync.Mutex
	done []string
}

func newLeaver() *leaver { return &leaver{ended: make(chan struct{})} }

func (l *leaver) did(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, what)
}

func (l *leaver) Name() string                          { return "ipvs" }
func (l *leaver) Yield(context.Context) error           { l.did("yield"); return nil }
func (l *leaver) Quiesce(context.Context) (bool, error) { l.did("quiesce"); return true, nil }
func (l *leaver) Cleanup(context.Context) error         { l.did("cleanup"); return nil }
func (l *leaver) Close() error                          { l.did("close"); return nil }

func (l *leaver) Drain(ctx context.Context) error {
	select {
	case <-ctx.Done():
		l.did("stopped")
		return ctx.Err()
	case <-l.ended:
		l.did("drained")
		return nil
	}
}

// TestFleetDrains is X22: what an old mode carries goes on beside the new one,
// until it ends, the mode is in use again or can't be there any more.
func TestFleetDrains(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		then func(f *fleet, l *leaver)
		want string
	}{
		{"in use again", func(f *fleet, l *leaver) { f.activate(f.find("ipvs")) }, "stopped"},
		{"the process ends", func(f *fleet, _ *leaver) { _ = f.close() }, "stopped close"},
		{"no dataplane any more", func(f *fleet, _ *leaver) { f.remove(context.Background()) }, "stopped cleanup close"},
		{"one that it can't be beside", func(f *fleet, _ *leaver) { f.retire(context.Background(), "userspace") }, "stopped cleanup close"},
		{"one more that it can be beside", func(f *fleet, l *leaver) {
			if keep := f.retire(context.Background(), "iptables"); !keep["ipvs"] {
				l.did("forgotten")
			}
			close(l.ended)
			f.kept[0].drain.running.Wait()
		}, "drained"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l, f := newLeaver(), &fleet{log: slog.New(slog.DiscardHandler)}
			f.supersede(t.Context(), l, "nftables")
			if keep := f.retire(t.Context(), "nftables"); !keep["ipvs"] || !keep["nftables"] {
				t.Errorf("modes whose objects stay: %v", keep)
			}
			test.then(f, l)
			if got, want := strings.Join(l.done, " "), "yield quiesce "+test.want; got != want {
				t.Errorf("done: %q, want %q", got, want)
			}
			if err := f.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFleetDoesNotYield(t *testing.T) {
	t.Parallel()
	for _, successor := range []string{"", "userspace"} {
		l, f := newLeaver(), &fleet{log: slog.New(slog.DiscardHandler)}
		f.supersede(t.Context(), l, successor)
		if slices.Contains(l.done, "yield") {
			t.Errorf("mode %q: it yields", successor)
		}
	}
}
