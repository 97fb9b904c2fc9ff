package vip

import (
	"context"
	"errors"
	"time"

	"signpost/discovery"
)

// round plans what is desired now and makes the dataplane equal it.
func (c *Controller) round(ctx context.Context, reason Reason) {
	r := Round{Reason: reason, Start: time.Now()}
	c.pending.CompareAndSwap(nil, &r.Start)
	c.plan()
	r.Look = c.have == nil || reason == ReasonPeriodic || reason == ReasonDrift || c.schedule.isDrifting()
	c.schedule.begin(r.Look)

	var withheld map[Frontend]error
	if !r.Look {
		withheld = c.quarantine.withheld(c.desired, r.Start)
	}
	want := c.desired.Without(withheld)
	var err error
	if r.Idle = !r.Look && same(c.have, want); !r.Idle {
		err = c.apply(ctx, r.Look, want)
	}
	if ctx.Err() != nil {
		return // we were stopped: what the apply did or did not do is for the next process to find out
	}
	c.settle(&r, want, withheld, err)
}

// plan brings the plan up to date.
func (c *Controller) plan() {
	snapshot, node := c.config.Desired.Current(), c.config.Nodes.Current()
	if node == nil {
		node = c.node // not known for the moment: the last one is the best guess
	}
	if snapshot == c.snapshot && node == c.node {
		return
	}
	next := c.config.Planner.Next(c.desired, c.snapshot, snapshot, node)
	c.changes.add(c.snapshot, snapshot, c.started)
	c.logPlan(c.desired, next)
	c.desired, c.snapshot, c.node = next, snapshot, node
}

func (c *Controller) apply(ctx context.Context, look bool, want *State) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.ApplyTimeout)
	defer cancel()
	if c.config.Before != nil {
		c.config.Before(ctx, c.snapshot.Revision)
	}
	have := c.have
	if look {
		have = nil
	}
	return c.config.Backend.Apply(ctx, have, want)
}

// settle draws the conclusions from a round and tells everyone.
func (c *Controller) settle(r *Round, want *State, withheld map[Frontend]error, err error) {
	now := time.Now()
	before := c.status.Current()
	status := &Status{Snapshot: c.snapshot, Desired: c.desired, Applied: before.Applied, Failed: before.Failed, Updated: before.Updated}
	var partial *PartialError
	switch {
	case err == nil:
		c.have, status.Applied = want, want
		partial = &PartialError{}
	case errors.As(err, &partial):
		c.have, status.Applied = AfterPartial(want, partial), want.Without(partial.Failed)
	default:
		c.have, status.LastError = nil, err
	}
	if status.LastError == nil {
		c.quarantine.tried(c.desired, withheld, partial.Failed, now)
		status.Failed, status.Updated = c.quarantine.failed(), now
		c.pending.Store(nil)
	}
	c.schedule.end(now, r.Look, c.have == nil)
	c.logStatus(before, status)
	c.report(r, status, now)
	c.status.Set(status)
}

// report tells the observer of a round. What changed is told once, with the
// round that brought it into the dataplane.
func (c *Controller) report(r *Round, status *Status, now time.Time) {
	if c.config.Observer == nil {
		return
	}
	r.Duration, r.Err, r.Failed = now.Sub(r.Start), status.LastError, len(status.Failed)
	if status.LastError == nil {
		r.Services, r.Slices, r.Triggers = c.changes.services, c.changes.slices, c.changes.triggers
		c.changes = changes{}
	}
	r.PendingServices, r.PendingSlices = c.changes.services, c.changes.slices
	c.config.Observer.Observe(*r)
}

// same reports whether two states mean the same dataplane.
func same(have, want *State) bool {
	for range Changes(have, want) {
		return false
	}
	return have.node.Equal(want.node)
}

// changes counts what the source changed.
type changes struct {
	services, slices int
	triggers         []time.Time
}

// add counts the difference between two snapshots. Slices whose trigger time
// is before since are old news (L-07).
func (c *changes) add(before, after *discovery.Snapshot, since time.Time) {
	if before == nil {
		before = &discovery.Snapshot{}
	}
	discovery.Diff(before.Services, after.Services, func(_ discovery.Key, old, now *discovery.Service) {
		c.service(old, now, since)
	})
}

func (c *changes) service(old, now *discovery.Service, since time.Time) {
	if differsItself(old, now) {
		c.services++
	}
	known := map[string]*discovery.Slice{}
	if old != nil {
		for _, s := range old.Slices {
			known[s.Name] = s
		}
	}
	if now == nil {
		return
	}
	for _, s := range now.Slices {
		if was := known[s.Name]; was == s || was != nil && was.Equal(s) {
			continue
		}
		c.slices++
		if s.Trigger.After(since) {
			c.triggers = append(c.triggers, s.Trigger)
		}
	}
}

// differsItself reports whether two versions of a service differ in more than
// their endpoints.
func differsItself(old, now *discovery.Service) bool {
	if old == nil || now == nil {
		return true
	}
	other := *now
	other.Slices = old.Slices
	return !other.Equal(old)
}
