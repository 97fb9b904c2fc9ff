package probe

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"signpost/discovery"
)

// podState is what is known about one pod of the wanted set.
type podState struct {
	key    discovery.Key
	pod    *corev1.Pod
	probes map[string]*probe // by container
	inside bool              // a container has a probe that can't be run here
	ready  bool
	told   bool // the value that was reported last
	gone   bool
}

// probe is one container's probe and its results so far.
type probe struct {
	owner     *podState
	container string
	target    target
	timing    timing

	due     time.Time
	index   int                // in the queue; -1 while it runs or is dropped
	cancel  context.CancelFunc // while it runs
	dropped bool

	ready  bool
	probed bool // there is a result
	last   bool // the last result
	run    int  // how often in a row it came
}

// record takes a result in. It reports whether the result is another one than
// the last, and the first of all counts as that.
func (p *probe) record(ok bool) (turned bool) {
	turned = !p.probed || p.last != ok
	if turned {
		p.run = 0
	}
	p.probed, p.last = true, ok
	p.run++
	switch {
	case ok && p.run >= p.timing.success:
		p.ready = true
	case !ok && p.run >= p.timing.failure:
		p.ready = false
	}
	return turned
}

// next is when the probe is due again. It keeps its rhythm; turns that have
// passed are left out.
func (p *probe) next(now time.Time) time.Time {
	due := p.due.Add(p.timing.period)
	if due.Before(now) {
		return now
	}
	return due
}

// judge works out whether the pod is ready.
func (s *podState) judge() bool {
	if finished(s.pod) || podAddress(s.pod) == "" || !gatesOpen(s.pod) {
		return false
	}
	if s.inside && !isTrue(s.pod, corev1.PodReady) {
		return false
	}
	if len(s.probes) == 0 {
		return s.inside || readyWithoutProbes(s.pod)
	}
	for _, p := range s.probes {
		if !p.ready {
			return false
		}
	}
	return true
}

func readyWithoutProbes(pod *corev1.Pod) bool {
	known := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if known {
		return isTrue(pod, corev1.PodReady)
	}
	return pod.Status.Phase == corev1.PodRunning
}

func gatesOpen(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		return !isTrue(pod, g.ConditionType)
	})
}

func isTrue(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}
