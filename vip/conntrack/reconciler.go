package conntrack

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"signpost/discovery"
	"signpost/vip"
)

// Config is what a [Reconciler] needs. Status and Table are required.
type Config struct {
	// Status is the controller whose dataplane the table belongs to.
	Status vip.StatusSource
	Table  Table
	Log    *slog.Logger
	// Observe, if not nil, is told how long each pass took.
	Observe func(took time.Duration)
	// Period is the time between passes without a change; 1 min.
	Period time.Duration
}

// Reconciler deletes stale UDP entries. It is the only loop of this package.
type Reconciler struct {
	config Config
	// Deleted and Failed count entries deleted and passes that failed.
	Deleted, Failed atomic.Uint64

	// All below belongs to Run.
	applied  *vip.State
	snapshot *discovery.Snapshot
	removed  map[vip.Frontend]bool
	failing  bool
}

// New returns a reconciler. It does nothing before Run.
func New(config Config) *Reconciler {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Period == 0 {
		config.Period = time.Minute
	}
	return &Reconciler{config: config, snapshot: &discovery.Snapshot{}, removed: map[vip.Frontend]bool{}}
}

// Run works until ctx ends. A pass that fails is tried again with the next
// change or after the period, and stops nobody else.
func (r *Reconciler) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.config.Period)
	defer ticker.Stop()
	for {
		status := r.config.Status.Status()
		if r.take(status) {
			r.pass(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.config.Status.Changed(status):
		case <-ticker.C:
			if r.applied != nil {
				r.pass(ctx)
			}
		}
	}
}

// take notes what is applied now and reports whether UDP is concerned.
func (r *Reconciler) take(status *vip.Status) bool {
	if status.Applied == nil || status.Applied == r.applied && status.Snapshot == r.snapshot {
		return false
	}
	concerned := false
	for before, after := range vip.Changes(r.applied, status.Applied) {
		if after == nil && before.Frontend.Protocol == discovery.UDP {
			r.removed[before.Frontend] = true
		}
		concerned = concerned || isUDP(before) || isUDP(after)
	}
	discovery.Diff(r.snapshot.Services, status.Snapshot.Services, func(_ discovery.Key, before, after *discovery.Service) {
		concerned = concerned || hasUDP(before) || hasUDP(after)
	})
	r.applied, r.snapshot = status.Applied, status.Snapshot
	return concerned
}

func isUDP(v *vip.VirtualServer) bool { return v != nil && v.Frontend.Protocol == discovery.UDP }

func hasUDP(s *discovery.Service) bool {
	if s == nil {
		return false
	}
	for _, p := range s.Ports {
		if p.Protocol == discovery.UDP {
			return true
		}
	}
	return false
}

// pass reads the table once and deletes what is stale.
func (r *Reconciler) pass(ctx context.Context) {
	start := time.Now()
	deleted, err := r.sweep(ctx)
	if r.config.Observe != nil {
		r.config.Observe(time.Since(start))
	}
	r.Deleted.Add(uint64(deleted))
	if deleted > 0 {
		r.config.Log.Info("deleted stale UDP connections", "count", deleted)
	}
	switch {
	case err == nil:
		clear(r.removed)
	case ctx.Err() != nil:
		return
	default:
		r.Failed.Add(1)
		if !r.failing {
			r.config.Log.Warn("cleaning up UDP connections; trying again later", "error", err)
		}
	}
	r.failing = err != nil
}

func (r *Reconciler) sweep(ctx context.Context) (deleted int, err error) {
	flows, err := r.config.Table.UDP(ctx)
	if err != nil {
		return 0, err
	}
	j := newJudge(r.applied, r.snapshot, r.removed)
	var errs []error
	for _, f := range flows {
		if !j.stale(f) {
			continue
		}
		if err := r.config.Table.Delete(ctx, f); err != nil {
			errs = append(errs, err)
			continue
		}
		deleted++
	}
	return deleted, errors.Join(errs...)
}
