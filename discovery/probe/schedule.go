package probe

import (
	"container/heap"
	"context"
	"time"

	"signpost/discovery"
)

// idle is how long the schedule sleeps when nothing is due; it is woken
// whenever something changes.
const idle = time.Hour

// schedule starts checks when they are due and reports flips, until the end.
func (p *Prober) schedule() {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		p.report()
		timer.Reset(p.launch(time.Now()))
		select {
		case <-p.ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// flip is a pod's new readiness.
type flip struct {
	key   discovery.Key
	ready bool
}

// report calls changed for each pod that is not as it was reported last.
func (p *Prober) report() {
	for _, f := range p.flips() {
		p.log.Info("pod readiness changed", "pod", f.key.String(), "ready", f.ready)
		p.changed(f.key, f.ready)
	}
}

func (p *Prober) flips() []flip {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []flip
	for _, s := range p.flipped {
		if !s.gone && s.ready != s.told {
			s.told = s.ready
			out = append(out, flip{s.key, s.ready})
		}
	}
	p.flipped = p.flipped[:0]
	return out
}

// launch starts what is due, as far as there is room, and returns how long to
// wait for the next. Without room it waits for a check to end.
func (p *Prober) launch(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) > 0 && p.running < maxAtOnce && !p.closed {
		if wait := p.waiting[0].due.Sub(now); wait > 0 {
			return wait
		}
		pr := heap.Pop(&p.waiting).(*probe) //nolint:errcheck // the queue holds nothing else
		ctx, cancel := context.WithTimeout(p.ctx, pr.timing.timeout)
		pr.cancel = cancel
		p.running++
		t := pr.target
		p.done.Go(func() {
			defer cancel()
			p.finish(pr, p.checker.check(ctx, t))
		})
	}
	return idle
}

// finish takes in a check's result and puts the probe back into the queue.
func (p *Prober) finish(pr *probe, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	pr.cancel = nil
	defer p.look()
	if pr.dropped || p.closed {
		return
	}
	s := pr.owner
	if turned := pr.record(err == nil); turned && err != nil {
		p.log.Info("readiness probe fails", "pod", s.key.String(), "container", pr.container, "err", err)
	}
	if s.ready = s.judge(); s.ready != s.told {
		p.flipped = append(p.flipped, s)
	}
	pr.due = pr.next(time.Now())
	heap.Push(&p.waiting, pr)
}
