package vip

import (
	"time"

	"signpost/discovery"
)

// Status is what a controller has achieved. It is immutable. The zero value is
// the status before the first round has ended.
type Status struct {
	// Snapshot is what the last round planned, Desired the plan.
	Snapshot *discovery.Snapshot
	Desired  *State
	// Applied is what the dataplane holds, as far as that is known: while
	// LastError is not nil, it is what the dataplane held before. Nil before
	// the first success.
	Applied *State
	// Failed are the frontends that can't be programmed, and why.
	Failed map[Frontend]error
	// LastError is why the last round failed as a whole; nil: it didn't.
	LastError error
	// Updated is when a round last succeeded, at least in part.
	Updated time.Time
}

// Status returns the newest status, never nil.
func (c *Controller) Status() *Status { return c.status.Current() }

// Changed returns a channel that is closed once the status is another one than
// old.
func (c *Controller) Changed(old *Status) <-chan struct{} { return c.status.Changed(old) }

// Health is the answer to the question whether the dataplane keeps up (L-04).
type Health struct {
	// Healthy is false when a change, or a look, has been under way for two
	// sync periods without success.
	Healthy bool
	// Updated is when a round last succeeded; zero: never.
	Updated time.Time
	// Pending is since when there is something that is not applied; zero: there
	// is nothing.
	Pending time.Time
}

// Health tells whether the dataplane keeps up. It is healthy before it has
// anything to do. It answers also while an apply hangs.
func (c *Controller) Health() Health {
	h := Health{Healthy: true, Updated: c.status.Current().Updated}
	if pending := c.pending.Load(); pending != nil {
		h.Pending = *pending
		h.Healthy = time.Since(*pending) < 2*c.config.SyncPeriod
	}
	return h
}

// Observer learns of every round, from the controller's own goroutine: it must
// not block. Metrics are made of it.
type Observer interface {
	Observe(round Round)
}

// Round is what happened in one round of a controller.
type Round struct {
	Reason   Reason
	Start    time.Time
	Duration time.Duration
	Look     bool  // the dataplane was looked at as a whole
	Idle     bool  // nothing had to be written, and the backend was not asked
	Err      error // the round failed as a whole
	Failed   int   // frontends that can't be programmed, after the round

	// Services and Slices are how many changed at the source and are now, as
	// far as they can be, in the dataplane; 0 if Err is not nil. Triggers are
	// the times of the changes behind the slices, if known: the network
	// programming latency is Start + Duration - trigger (L-07).
	Services, Slices int
	Triggers         []time.Time
	// PendingServices and PendingSlices are how many changed and are not in the
	// dataplane yet, because Err is not nil.
	PendingServices, PendingSlices int
}
