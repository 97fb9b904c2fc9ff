package vip

import "time"

// Reason says why a round of the controller took place.
type Reason uint8

// The reasons for a round. All but ReasonChange look at the dataplane first.
const (
	ReasonStart    Reason = iota // the first one
	ReasonChange                 // services or the node changed
	ReasonRetry                  // something failed before
	ReasonPeriodic               // the regular look
	ReasonDrift                  // another program changed the dataplane
)

// String returns "start", "change", "retry", "periodic" or "drift".
func (r Reason) String() string {
	return [...]string{"start", "change", "retry", "periodic", "drift"}[r]
}

// schedule decides when the next round is due. It never reads the clock; all
// its times carry the monotonic one, so that a jump of the wall clock changes
// nothing (L-09).
type schedule struct {
	minInterval, syncPeriod time.Duration
	backoff                 backoff

	begun    bool
	lastEnd  time.Time // of any round
	lastLook time.Time // end of the last one that looked
	failing  int       // rounds that failed as a whole, in a row
	retryAt  time.Time // when failing

	driftFirst, driftLast time.Time // not looked at yet; zero: none
}

// next returns when the next round is due and why. Changed says that there is
// something to plan, held is when the first quarantined frontend is due (zero:
// none). While the dataplane fails as a whole, only the retry counts: it takes
// everything else with it.
func (s *schedule) next(changed bool, held time.Time) (time.Time, Reason) {
	switch {
	case !s.begun:
		return s.lastEnd, ReasonStart
	case s.failing > 0:
		return s.retryAt, ReasonRetry
	}
	at, reason := s.lastLook.Add(s.syncPeriod), ReasonPeriodic
	earlier := func(t time.Time, why Reason) {
		if t.Before(at) {
			at, reason = t, why
		}
	}
	if !held.IsZero() {
		earlier(held, ReasonRetry)
	}
	soonest := s.lastEnd.Add(s.minInterval)
	if changed {
		earlier(soonest, ReasonChange)
	}
	if s.isDrifting() {
		earlier(s.driftLast.Add(driftPause), ReasonDrift)
		earlier(s.driftFirst.Add(driftLimit), ReasonDrift)
	}
	if at.Before(soonest) {
		at = soonest
	}
	return at, reason
}

func (s *schedule) isDrifting() bool { return !s.driftFirst.IsZero() }

// drifted records an event from the backend's watcher.
func (s *schedule) drifted(now time.Time) {
	if !s.isDrifting() {
		s.driftFirst = now
	}
	s.driftLast = now
}

// begin records that a round begins which looks at everything.
func (s *schedule) begin(looks bool) {
	s.begun = true
	if looks {
		s.driftFirst, s.driftLast = time.Time{}, time.Time{}
	}
}

// end records the end of a round.
func (s *schedule) end(now time.Time, looked, failed bool) {
	s.lastEnd = now
	if looked {
		s.lastLook = now
	}
	if !failed {
		s.failing = 0
		return
	}
	s.failing++
	s.retryAt = now.Add(s.backoff.after(s.failing))
}

// backoff doubles a delay from failure to failure.
type backoff struct{ least, most time.Duration }

// after returns the delay after so many failures in a row, at least one.
func (b backoff) after(failures int) time.Duration {
	delay := b.least
	for i := 1; i < failures && delay < b.most; i++ {
		delay *= 2
	}
	return min(delay, b.most)
}
