package vip

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"signpost/discovery"
)

// Config is what a [Controller] needs. Desired, Nodes and Backend are
// required; a zero duration is its default.
type Config struct {
	Desired *discovery.Store
	Nodes   NodeSource
	Backend Backend
	Planner Planner
	Log     *slog.Logger

	// Before, if not nil, is called before each apply with the revision that is
	// about to be applied; see [Gate.Passed]. It returns soon after ctx ends.
	Before func(ctx context.Context, revision uint64)
	// Observer, if not nil, is told of every round.
	Observer Observer

	MinInterval  time.Duration // from the end of a round to the next; 10 ms (P-24)
	SyncPeriod   time.Duration // from look to look; 30 s
	RetryMin     time.Duration // first delay after a failure; 100 ms
	RetryMax     time.Duration // longest delay after failures; 30 s
	ApplyTimeout time.Duration // for one Apply; 2 min
}

// A flush by another program is many events. The look that follows waits until
// they pause, so as not to work against the flush, but not for ever (X02: healed
// within 2 s).
const (
	driftPause = 100 * time.Millisecond
	driftLimit = time.Second
)

// Controller makes a backend's dataplane follow a store. It is the only place
// in the dataplane that waits, retries and gives up.
type Controller struct {
	config Config
	log    *slog.Logger
	drift  chan struct{}
	status *Cell[Status]
	// pending is when the oldest change that is not applied yet was taken up;
	// nil: everything is applied.
	pending atomic.Pointer[time.Time]

	// All below belongs to Run.
	started    time.Time
	schedule   schedule
	quarantine quarantine
	snapshot   *discovery.Snapshot // the last one planned
	node       *Node               // and the node that it was planned for
	desired    *State              // and the plan
	have       *State              // what the dataplane holds; nil: unknown
	changes    changes             // not reported yet
}

// NewController returns a controller. It does nothing before Run.
func NewController(config Config) *Controller {
	config.MinInterval = cmp.Or(config.MinInterval, 10*time.Millisecond)
	config.SyncPeriod = cmp.Or(config.SyncPeriod, 30*time.Second)
	config.RetryMin = cmp.Or(config.RetryMin, 100*time.Millisecond)
	config.RetryMax = cmp.Or(config.RetryMax, 30*time.Second)
	config.ApplyTimeout = cmp.Or(config.ApplyTimeout, 2*time.Minute)
	log := config.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	backoff := backoff{least: config.RetryMin, most: config.RetryMax}
	return &Controller{
		config: config, log: log, drift: make(chan struct{}, 1), status: NewCell(&Status{}),
		schedule:   schedule{minInterval: config.MinInterval, syncPeriod: config.SyncPeriod, backoff: backoff},
		quarantine: quarantine{backoff: backoff, held: map[Frontend]*detainee{}},
	}
}

// Run works until the context ends. It writes nothing before the store is
// synced and the node is known (P-23), and leaves the dataplane as it is when
// it returns (L-01, T-11). It may be called once.
func (c *Controller) Run(ctx context.Context) error {
	c.started = time.Now()
	if _, err := c.config.Desired.Wait(ctx, func(s *discovery.Snapshot) bool { return s.Synced }); err != nil {
		return nil
	}
	if !c.waitForNode(ctx) {
		return nil
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	if w, ok := c.config.Backend.(Watcher); ok {
		watching.Go(func() { c.watch(ctx, w) })
	}
	for {
		reason, ok := c.wait(ctx)
		if !ok {
			return nil
		}
		c.round(ctx, reason)
	}
}

func (c *Controller) waitForNode(ctx context.Context) bool {
	for c.config.Nodes.Current() == nil {
		select {
		case <-ctx.Done():
			return false
		case <-c.config.Nodes.Changed(nil):
		}
	}
	return true
}

// watch forwards the backend's drift events, and starts to watch again, after
// a pause, if that fails.
func (c *Controller) watch(ctx context.Context, w Watcher) {
	notify := func() {
		select {
		case c.drift <- struct{}{}:
		default: // one is waiting already
		}
	}
	for ctx.Err() == nil {
		err := w.Watch(ctx, notify)
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("watching the dataplane ended; trying again", "backend", c.config.Backend.Name(), "error", err, "after", c.config.SyncPeriod)
		select {
		case <-ctx.Done():
		case <-time.After(c.config.SyncPeriod):
		}
	}
}

// wait returns when a round is due, and why; false when the context has ended.
func (c *Controller) wait(ctx context.Context) (Reason, bool) {
	for {
		select {
		case <-c.drift:
			c.schedule.drifted(time.Now())
		default:
		}
		snapshotChanged, nodeChanged, changed := c.changed()
		at, reason := c.schedule.next(changed, c.quarantine.next())
		delay := time.Until(at)
		if ctx.Err() != nil {
			return reason, false
		}
		if delay <= 0 {
			return reason, true
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-snapshotChanged:
		case <-nodeChanged:
		case <-c.drift:
			c.schedule.drifted(time.Now())
		}
		timer.Stop()
	}
}

// changed reports whether there is something new to plan. If not, it returns
// the channels that tell when there is; else they are nil.
func (c *Controller) changed() (snapshot, node <-chan struct{}, changed bool) {
	if c.snapshot == nil || c.config.Desired.Current() != c.snapshot {
		return nil, nil, true
	}
	if n := c.config.Nodes.Current(); n != nil && n != c.node {
		return nil, nil, true
	}
	return c.config.Desired.Changed(c.snapshot.Revision), c.config.Nodes.Changed(c.node), false
}
