package probe

import (
	"container/heap"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"signpost/discovery"
)

const (
	// maxAtOnce is how many checks run at the same time.
	maxAtOnce = 256
	// spacing is the time between the first checks of pods that come together,
	// on average.
	spacing = time.Millisecond
)

// Prober runs the readiness probes of a set of pods. Its methods may be called
// from several goroutines.
type Prober struct {
	log     *slog.Logger
	changed func(discovery.Key, bool)
	checker checker

	ctx  context.Context // ends all checks
	stop context.CancelFunc
	done sync.WaitGroup // the schedule and all checks under way
	wake chan struct{}  // the schedule has to look again

	mu      sync.Mutex
	pods    map[discovery.Key]*podState
	waiting queue
	running int
	flipped []*podState // ready and told may differ
	closed  bool
}

// New returns a prober that runs and has no pods yet. It calls changed whenever
// a pod becomes ready or ceases to be, one call at a time, but not for what a
// pod begins with. Changed may call every method but [Prober.Close].
func New(log *slog.Logger, changed func(discovery.Key, bool)) *Prober {
	return start(log, changed, newNetwork())
}

func start(log *slog.Logger, changed func(discovery.Key, bool), checker checker) *Prober {
	p := &Prober{log: log, changed: changed, checker: checker, wake: make(chan struct{}, 1), pods: map[discovery.Key]*podState{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.done.Go(p.schedule)
	return p
}

// Close ends all checks and waits for them. The states stay as they were last.
func (p *Prober) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.done.Wait()
}

// Ready tells whether a pod is ready, and whether it is in the wanted set.
func (p *Prober) Ready(key discovery.Key) (ready, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.pods[key]; s != nil {
		return s.ready, true
	}
	return false, false
}

// Set says which pods are wanted. Pods that come start as not ready if they
// have probes; pods that go are forgotten; a pod with another UID is another
// pod. A probe that changed in what it asks begins anew, one that changed in
// its times and thresholds only keeps its result. The pods must not be changed
// afterwards.
func (p *Prober) Set(pods []*corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	wantedKeys := make(map[discovery.Key]bool, len(pods))
	var fresh []*probe
	for _, pod := range pods {
		if pod == nil {
			continue
		}
		key := discovery.Key{Namespace: pod.Namespace, Name: pod.Name}
		wantedKeys[key] = true
		fresh = append(fresh, p.setOne(key, pod)...)
	}
	for key, s := range p.pods {
		if !wantedKeys[key] {
			p.forget(s)
		}
	}
	p.enqueue(fresh)
	p.look()
}

// setOne brings one pod's state up to date and returns the probes that begin.
func (p *Prober) setOne(key discovery.Key, pod *corev1.Pod) (fresh []*probe) {
	s := p.pods[key]
	if s != nil && s.pod == pod {
		return nil
	}
	if s != nil && s.pod.UID != pod.UID {
		p.forget(s)
		s = nil
	}
	isNew := s == nil
	if isNew {
		s = &podState{key: key, probes: map[string]*probe{}}
		p.pods[key] = s
	}
	s.pod = pod
	wantedProbes, inside := probesOf(pod)
	if len(inside) > 0 && !s.inside {
		p.log.Warn("readiness probe can't be run outside of the container; the pod's Ready condition counts",
			"pod", key.String(), "container", inside[0])
	}
	s.inside = len(inside) > 0
	fresh = p.setProbes(s, wantedProbes)
	if s.ready = s.judge(); isNew {
		s.told = s.ready
	} else {
		p.flipped = append(p.flipped, s)
	}
	return fresh
}

func (p *Prober) setProbes(s *podState, wantedProbes map[string]wanted) (fresh []*probe) {
	for container, old := range s.probes {
		if w, still := wantedProbes[container]; !still || !w.target.equal(old.target) {
			p.drop(old)
			delete(s.probes, container)
		}
	}
	for container, w := range wantedProbes {
		if old := s.probes[container]; old != nil {
			p.retime(old, w.timing)
			continue
		}
		now := time.Now()
		begin := now
		if !w.started.IsZero() && w.started.Before(now) {
			begin = w.started
		}
		due := begin.Add(w.timing.delay)
		if due.Before(now) {
			due = now
		}
		next := &probe{owner: s, container: container, target: w.target, timing: w.timing, due: due, index: -1}
		s.probes[container] = next
		fresh = append(fresh, next)
	}
	return fresh
}

// retime gives a probe other times and thresholds. Results so far count.
func (p *Prober) retime(pr *probe, t timing) {
	if pr.timing == t {
		return
	}
	pr.timing = t
	if latest := time.Now().Add(t.period); pr.index >= 0 && pr.probed && pr.due.After(latest) {
		pr.due = latest
		heap.Fix(&p.waiting, pr.index)
	}
}

// enqueue schedules probes that begin. Many are spread over time, so that
// neither this machine nor the pods see them all in one instant; a few are not
// held up for more than some milliseconds.
func (p *Prober) enqueue(fresh []*probe) {
	spread := time.Duration(len(fresh)-1) * spacing
	for _, pr := range fresh {
		if window := min(spread, pr.timing.period); window > 0 {
			pr.due = pr.due.Add(rand.N(window))
		}
		heap.Push(&p.waiting, pr)
	}
}

func (p *Prober) forget(s *podState) {
	s.gone = true
	delete(p.pods, s.key)
	for _, pr := range s.probes {
		p.drop(pr)
	}
}

// drop takes a probe out; a check under way ends and its result is not used.
func (p *Prober) drop(pr *probe) {
	pr.dropped = true
	if pr.index >= 0 {
		heap.Remove(&p.waiting, pr.index)
	}
	if pr.cancel != nil {
		pr.cancel()
	}
}

// look makes the schedule look at what has changed.
func (p *Prober) look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
