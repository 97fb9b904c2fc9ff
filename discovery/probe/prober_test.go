package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"signpost/discovery"
)

// scripted is a checker that answers from a function and notes when it was
// asked, in seconds since its making.
type scripted struct {
	begin  time.Time
	answer func(ctx context.Context, t target) error

	mu          sync.Mutex
	asked       []float64
	now, atMost int
}

func newScripted(answer func(ctx context.Context, t target) error) *scripted {
	return &scripted{begin: time.Now(), answer: answer}
}

// always gives the same answer each time.
func always(err error) func(context.Context, target) error {
	return func(context.Context, target) error { return err }
}

var errRefused = errors.New("refused")

// pattern answers by turns: '+' success, '-' failure, the last for ever.
func pattern(turns string) func(context.Context, target) error {
	var n int
	return func(context.Context, target) error {
		turn := turns[min(n, len(turns)-1)]
		n++
		if turn == '+' {
			return nil
		}
		return errRefused
	}
}

func (s *scripted) check(ctx context.Context, t target) error {
	s.mu.Lock()
	s.asked = append(s.asked, time.Since(s.begin).Seconds())
	s.now++
	s.atMost = max(s.atMost, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	return s.answer(ctx, t)
}

func (s *scripted) times() []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// load is how many checks run now, and at most ran at once.
func (s *scripted) load() (now, atMost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.atMost
}

// flipLog collects what a prober reports, as "12s default/a true".
type flipLog struct {
	begin time.Time
	mu    sync.Mutex
	lines []string
}

func (f *flipLog) changed(k discovery.Key, ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, fmt.Sprint(time.Since(f.begin), " ", k.Name, " ", ready))
}

func (f *flipLog) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.lines, ", ")
}

var key = discovery.Key{Namespace: "default", Name: "a"}

// newPod has one container with a TCP probe, once a second.
func newPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:  "app",
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}},
				PeriodSeconds: 1,
			},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func times(delay, period, timeout, success, failure int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		p := pod.Spec.Containers[0].ReadinessProbe
		p.InitialDelaySeconds, p.PeriodSeconds, p.TimeoutSeconds = delay, period, timeout
		p.SuccessThreshold, p.FailureThreshold = success, failure
	}
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status})
	}
}

func noProbe(pod *corev1.Pod) { pod.Spec.Containers[0].ReadinessProbe = nil }

func execProbe(pod *corev1.Pod) {
	pod.Spec.Containers[0].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{}}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// run starts a prober with a scripted checker inside a bubble of fake time.
func run(t *testing.T, answer func(context.Context, target) error, test func(p *Prober, c *scripted, f *flipLog)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		c, f := newScripted(answer), &flipLog{begin: time.Now()}
		p := start(quiet(), f.changed, c)
		defer p.Close()
		test(p, c, f)
	})
}

// after lets fake time pass and everything settle.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestThresholdsAndTimes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		pod    *corev1.Pod
		turns  string
		length time.Duration
		asked  []float64
		flips  string
	}{
		{"defaults: at once, each 10 s", newPod("a", times(0, 0, 0, 0, 0)), "+", 25 * time.Second, []float64{0, 10, 20}, "0s a true"},
		{
			"defaults: three failures", newPod("a", times(0, 0, 0, 0, 0)), "+---+", 45 * time.Second,
			[]float64{0, 10, 20, 30, 40},
			"0s a true, 30s a false, 40s a true",
		},
		{"failures that don't last", newPod("a"), "+--+--+", 6500 * time.Millisecond, []float64{0, 1, 2, 3, 4, 5, 6}, "0s a true"},
		{"initial delay", newPod("a", times(5, 2, 0, 0, 0)), "+", 8 * time.Second, []float64{5, 7}, "5s a true"},
		{"success threshold", newPod("a", times(0, 1, 0, 3, 1)), "++-+++-", 6500 * time.Millisecond, []float64{0, 1, 2, 3, 4, 5, 6}, "5s a true, 6s a false"},
		{"never ready", newPod("a"), "-", 2500 * time.Millisecond, []float64{0, 1, 2}, ""},
		{
			"the delay counts from the start of the container", newPod("a", times(5, 2, 0, 0, 0), func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
					// Fake time begins in the year 2000.
					Running: &corev1.ContainerStateRunning{StartedAt: metav1.Date(1999, 12, 31, 23, 59, 58, 0, time.UTC)},
				}}}
			}),
			"+", 4 * time.Second,
			[]float64{3},
			"3s a true",
		},
		{
			"negative numbers are defaults", newPod("a", times(-1, -1, -1, -1, -1)), "+", 15 * time.Second, []float64{0, 10}, "0s a true",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run(t, pattern(c.turns), func(p *Prober, checks *scripted, f *flipLog) {
				p.Set([]*corev1.Pod{c.pod})
				if ready, known := p.Ready(key); ready || !known {
					t.Errorf("at the start: ready %v, known %v", ready, known)
				}
				after(c.length)
				if !slices.Equal(checks.times(), c.asked) || f.text() != c.flips {
					t.Errorf("asked at %v, want %v; flips %q, want %q", checks.times(), c.asked, f.text(), c.flips)
				}
			})
		})
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context, _ target) error { <-ctx.Done(); return ctx.Err() }
	run(t, hang, func(p *Prober, c *scripted, f *flipLog) {
		p.Set([]*corev1.Pod{newPod("a", times(0, 10, 4, 1, 1))})
		after(3 * time.Second)
		if now, _ := c.load(); now != 1 {
			t.Fatal("the check is over before its time")
		}
		after(2 * time.Second)
		now, _ := c.load()
		if ready, _ := p.Ready(key); ready || now != 0 || f.text() != "" {
			t.Errorf("ready %v, checks %d, flips %q", ready, now, f.text())
		}
	})
	// A check longer than its period: the next follows at once, none beside it.
	run(t, hang, func(p *Prober, c *scripted, _ *flipLog) {
		p.Set([]*corev1.Pod{newPod("a", times(0, 1, 3, 1, 1))})
		after(8 * time.Second)
		_, atMost := c.load()
		if want := []float64{0, 3, 6}; !slices.Equal(c.times(), want) || atMost != 1 {
			t.Errorf("asked at %v, want %v; %d at once", c.times(), want, atMost)
		}
	})
}

func TestSetKeepsWhatDidNotChange(t *testing.T) {
	t.Parallel()
	otherPort := func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports[0].ContainerPort = 9090 }
	otherAddress := func(pod *corev1.Pod) { pod.Status.PodIP = "10.0.0.2" }
	otherUID := func(pod *corev1.Pod) { pod.UID = "new" }
	label := func(pod *corev1.Pod) { pod.Labels = map[string]string{"x": "y"} }
	first := newPod("a", times(0, 10, 1, 1, 3))
	same := func(changes ...func(*corev1.Pod)) *corev1.Pod {
		return newPod("a", append([]func(*corev1.Pod){times(0, 10, 1, 1, 3)}, changes...)...)
	}
	cases := []struct {
		name  string
		next  *corev1.Pod
		ready bool // just after Set, before anything was asked
		asked []float64
	}{
		{"same pointer", first, true, []float64{0, 10, 20}},
		{"equal pod", same(), true, []float64{0, 10, 20}},
		{"label", same(label), true, []float64{0, 10, 20}},
		{"shorter period", newPod("a", times(0, 2, 1, 1, 3)), true, []float64{0, 6, 8, 10, 12, 14, 16, 18, 20}},
		{"longer period", newPod("a", times(0, 12, 1, 1, 3)), true, []float64{0, 10}},
		{"port", same(otherPort), false, []float64{0, 4, 14}},
		{"address", same(otherAddress), false, []float64{0, 4, 14}},
		{"another pod of that name", same(otherUID), false, []float64{0, 4, 14}},
		{"probe removed", same(noProbe), true, []float64{0}},
		{"finished", same(func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }), false, []float64{0}},
		{"no address", same(func(pod *corev1.Pod) { pod.Status.PodIP = "" }), false, []float64{0}},
		{"terminating: still asked", same(func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }), true, []float64{0, 10, 20}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run(t, always(nil), func(p *Prober, checks *scripted, _ *flipLog) {
				p.Set([]*corev1.Pod{first})
				after(4 * time.Second)
				p.Set([]*corev1.Pod{c.next, nil})
				if ready, known := p.Ready(key); ready != c.ready || !known {
					t.Errorf("ready %v, known %v; want %v", ready, known, c.ready)
				}
				after(17 * time.Second)
				if !slices.Equal(checks.times(), c.asked) {
					t.Errorf("asked at %v, want %v", checks.times(), c.asked)
				}
			})
		})
	}
}

func TestPodsThatGo(t *testing.T) {
	t.Parallel()
	canceled := make(chan error, 1)
	hang := func(ctx context.Context, _ target) error { <-ctx.Done(); canceled <- context.Cause(ctx); return nil }
	run(t, hang, func(p *Prober, c *scripted, f *flipLog) {
		p.Set([]*corev1.Pod{newPod("a", times(0, 60, 30, 1, 1))})
		after(time.Second)
		p.Set(nil)
		after(0)
		if err := <-canceled; !errors.Is(err, context.Canceled) {
			t.Errorf("the check under way ended by %v", err)
		}
		after(time.Minute)
		if _, known := p.Ready(key); known || f.text() != "" || len(c.times()) != 1 {
			t.Errorf("known %v, flips %q, asked at %v", known, f.text(), c.times())
		}
	})
	run(t, always(nil), func(p *Prober, c *scripted, _ *flipLog) {
		p.Set([]*corev1.Pod{newPod("a"), newPod("b")})
		after(1500 * time.Millisecond)
		before := len(c.times())
		p.Set([]*corev1.Pod{newPod("b")})
		after(2 * time.Second)
		if n := len(c.times()) - before; n != 2 {
			t.Errorf("%d checks of the pod that stays in two seconds", n)
		}
	})
}

func TestReadinessOfThePod(t *testing.T) {
	t.Parallel()
	gate := func(pod *corev1.Pod) { pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb"}} }
	second := func(port int32) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			c := *pod.Spec.Containers[0].DeepCopy()
			c.Name, c.Ports[0].ContainerPort = "second", port
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	sidecar := func(port int32) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			second(port)(pod)
			pod.Spec.InitContainers = pod.Spec.Containers[1:]
			pod.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			pod.Spec.Containers = pod.Spec.Containers[:1]
		}
	}
	phase := func(p corev1.PodPhase) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Status.Phase = p } }
	isReady, notReady := condition(corev1.PodReady, corev1.ConditionTrue), condition(corev1.PodReady, corev1.ConditionFalse)
	cases := []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"a probe that passes goes before the condition", newPod("a", notReady), true},
		{"no probe, running", newPod("a", noProbe), true},
		{"no probe, pending", newPod("a", noProbe, phase(corev1.PodPending)), false},
		{"no probe, condition", newPod("a", noProbe, notReady), false},
		{"no probe, condition, pending", newPod("a", noProbe, isReady, phase(corev1.PodPending)), true},
		{"no probe, no address", newPod("a", noProbe, func(pod *corev1.Pod) { pod.Status.PodIP = "" }), false},
		{"finished", newPod("a", noProbe, isReady, phase(corev1.PodSucceeded)), false},
		{"exec: the condition says no", newPod("a", execProbe, notReady), false},
		{"exec: the condition says yes", newPod("a", execProbe, isReady), true},
		{"exec: no condition", newPod("a", execProbe), false},
		{"exec beside a probe that fails", newPod("a", second(81), execProbe, isReady), false},
		{"exec beside a probe that passes", newPod("a", second(82), execProbe, isReady), true},
		{"both containers", newPod("a", second(82)), true},
		{"one of two containers", newPod("a", second(81)), false},
		{"sidecar passes", newPod("a", sidecar(82)), true},
		{"sidecar fails", newPod("a", sidecar(81)), false},
		{"readiness gate closed", newPod("a", gate), false},
		{"readiness gate open", newPod("a", gate, condition("lb", corev1.ConditionTrue)), true},
		{"podIPs alone", newPod("a", func(pod *corev1.Pod) {
			pod.Status.PodIP, pod.Status.PodIPs = "", []corev1.PodIP{{IP: "10.0.0.9"}}
		}), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answer := func(_ context.Context, target target) error {
				if target.port == 81 {
					return errRefused
				}
				return nil
			}
			run(t, answer, func(p *Prober, _ *scripted, _ *flipLog) {
				p.Set([]*corev1.Pod{c.pod})
				after(500 * time.Millisecond)
				if ready, known := p.Ready(key); ready != c.want || !known {
					t.Errorf("ready %v, known %v; want %v", ready, known, c.want)
				}
			})
		})
	}
}

// TestManyPods: 10,000 pods don't start in one instant, never too many run at
// once, and each has its turn in each period.
func TestManyPods(t *testing.T) {
	t.Parallel()
	const pods = 10_000
	slow := func(context.Context, target) error { time.Sleep(100 * time.Millisecond); return nil }
	run(t, slow, func(p *Prober, c *scripted, f *flipLog) {
		all := make([]*corev1.Pod, pods)
		for i := range all {
			all[i] = newPod(fmt.Sprint("pod-", i), times(0, 10, 1, 1, 3))
		}
		p.Set(all)
		after(10 * time.Millisecond)
		if n := len(c.times()); n > 100 {
			t.Errorf("%d checks within 10 ms", n)
		}
		after(11 * time.Second)
		if n := strings.Count(f.text(), "true"); n != pods {
			t.Errorf("%d of %d pods became ready", n, pods)
		}
		before := len(c.times())
		after(10 * time.Second)
		if n := len(c.times()) - before; n < pods*99/100 || n > pods*101/100 {
			t.Errorf("%d checks in one period of %d pods", n, pods)
		}
		if _, atMost := c.load(); atMost > maxAtOnce {
			t.Errorf("%d checks at once", atMost)
		}
	})
}

// TestFullHouse: more checks that hang than there is room for.
func TestFullHouse(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context, _ target) error { <-ctx.Done(); return ctx.Err() }
	run(t, hang, func(p *Prober, c *scripted, _ *flipLog) {
		all := make([]*corev1.Pod, 3*maxAtOnce)
		for i := range all {
			all[i] = newPod(fmt.Sprint("pod-", i), times(0, 60, 5, 1, 3))
		}
		p.Set(all)
		after(16 * time.Second)
		_, atMost := c.load()
		if n := len(c.times()); n != len(all) || atMost != maxAtOnce {
			t.Errorf("%d of %d pods were asked, %d at once", n, len(all), atMost)
		}
	})
}

func TestCloseEndsChecks(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context, _ target) error { <-ctx.Done(); return nil }
	run(t, hang, func(p *Prober, c *scripted, f *flipLog) {
		p.Set([]*corev1.Pod{newPod("a", times(0, 60, 3600, 1, 1))})
		after(time.Second)
		begin := time.Now()
		p.Close()
		p.Close()
		p.Set([]*corev1.Pod{newPod("b")})
		after(time.Minute)
		if ready, known := p.Ready(key); ready || !known || f.text() != "" || len(c.times()) != 1 || time.Since(begin) != time.Minute {
			t.Errorf("ready %v, known %v, flips %q, asked %v", ready, known, f.text(), c.times())
		}
	})
}

func TestChangedMayCallBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p *Prober
		var seen []string
		changed := func(k discovery.Key, ready bool) {
			now, known := p.Ready(k)
			seen = append(seen, fmt.Sprintln(k.Name, ready, now, known))
			p.Set([]*corev1.Pod{newPod("a"), newPod("b")})
		}
		ready := make(chan struct{})
		p = start(quiet(), func(k discovery.Key, r bool) { <-ready; changed(k, r) }, newScripted(always(nil)))
		close(ready)
		p.Set([]*corev1.Pod{newPod("a")})
		after(time.Second)
		p.Close()
		if want := []string{"a true true true\n", "b true true true\n"}; !slices.Equal(seen, want) {
			t.Errorf("seen %v, want %v", seen, want)
		}
	})
}

func TestLogsChangesOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		p := start(log, func(discovery.Key, bool) {}, newScripted(pattern("---++---")))
		p.Set([]*corev1.Pod{newPod("a"), newPod("e", execProbe)})
		p.Set([]*corev1.Pod{newPod("a"), newPod("e", execProbe)})
		after(20 * time.Second)
		p.Close()
		for text, want := range map[string]int{
			"readiness probe fails": 2, "ready=true": 1, "ready=false": 1, "can't be run": 1, "err=refused": 2, "pod=default/e": 1,
		} {
			if got := strings.Count(out.String(), text); got != want {
				t.Errorf("%q is there %d times, want %d, in:\n%s", text, got, want, out.String())
			}
		}
	})
}
