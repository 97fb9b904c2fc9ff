package dnsserver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxPatient limits the queries that wait for the source, so that those of
// other zones go on while a whole cluster asks.
const maxPatient = 1024

// patientStart lets queries wait while the source has yet to say what they ask
// for.
type patientStart struct {
	until   time.Time     // of waiting
	synced  chan struct{} // closed by done
	once    sync.Once
	waiting atomic.Int64
}

func newPatientStart(timeout time.Duration) *patientStart {
	return &patientStart{until: time.Now().Add(timeout), synced: make(chan struct{})}
}

// done lets everyone go on: the source has said everything.
func (p *patientStart) done() { p.once.Do(func() { close(p.synced) }) }

// lookup answers a question from the present view, which may be a later one
// than there was when it was asked.
func (c *Cluster) lookup(ctx context.Context, q *queryName, qtype uint16) (*view, result) {
	v := c.view.Load()
	r := v.lookup(q, qtype)
	if r.outcome != unknown || !c.start.wait(ctx) {
		return v, r
	}
	v = c.view.Load()
	return v, v.lookup(q, qtype)
}

// wait waits for the source; false means that it has nothing more to say.
func (p *patientStart) wait(ctx context.Context) bool {
	left := time.Until(p.until)
	if left <= 0 {
		return false
	}
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > maxPatient {
		return false
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-p.synced:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
