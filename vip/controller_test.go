package vip_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signpost/vip"
	"signpost/vip/viptest"
)

func TestControllerTiming(t *testing.T) {
	t.Parallel()
	bubble(t, "P-23 nothing is written before everything is known", func(t *testing.T) {
		r := newRig(t, func(c *vip.Config) { c.Nodes = vip.NewCell[vip.Node](nil) })
		wait(time.Minute)
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		wait(time.Minute)
		if n := r.count(); n != 0 {
			t.Errorf("applies before the node is known: got %d, want 0", n)
		}
	})
	bubble(t, "P-23 then one full look", func(t *testing.T) {
		r := newRig(t, nil)
		wait(time.Minute)
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		if at, looks := r.calls(0); !slices.Equal(looks, []bool{true}) || at[0] != time.Minute {
			t.Errorf("applies: got %v at %v, want one look at once", looks, at)
		}
	})
	bubble(t, "P-24 a lone change goes at once, a storm is batched, counted from the end of a round", func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		wait(time.Second)
		from := r.count()
		for i := range 20 {
			r.put(t, fmt.Sprintf("service a/b ips=10.0.0.2 ports=%d", 80+i))
			wait(time.Millisecond)
		}
		wait(time.Second)
		at, looks := r.calls(from)
		if want := []time.Duration{time.Second, time.Second + 10*time.Millisecond, time.Second + 20*time.Millisecond}; !slices.Equal(at, want) || slices.Contains(looks, true) {
			t.Errorf("applies: got %v, looks %v; want %v and no look", at, looks, want)
		}
	})
	bubble(t, "a change that means nothing to the dataplane is no apply", func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		from := r.count()
		r.put(t, "service a/headless headless ports=80")
		wait(time.Second)
		if n := r.count(); n != from {
			t.Errorf("applies: got %d, want none", n-from)
		}
		if got := r.controller.Status().Snapshot; got != r.store.Current() {
			t.Error("the status is not of the newest snapshot")
		}
	})
	bubble(t, "a look every sync period", func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		wait(95 * time.Second)
		if at, looks := r.calls(1); !slices.Equal(at, []time.Duration{30 * time.Second, 60 * time.Second, 90 * time.Second}) || slices.Contains(looks, false) {
			t.Errorf("applies: got %v, looks %v", at, looks)
		}
	})
	bubble(t, "a change of the node is applied", func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, "service a/a type=NodePort ips=10.0.0.1 ports=80->30080")
		r.node.Set(&vip.Node{Name: "n1", NodePortAddrs: addrs("192.168.6.7")})
		wait(time.Second)
		p := viptest.Packet{Source: vip.FromOutside, From: addrs("198.18.0.1")[0], To: frontend(t, "192.168.6.7:30080")}
		if got := r.backend.Connect(p).Action; got != viptest.Reject {
			t.Errorf("sending to the new node address: got %s, want %s", got, viptest.Reject)
		}
	})
	bubble(t, "L-01 when it ends it leaves everything as it is", func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		r.stop()
		if n := len(r.backend.Frontends()); n != 1 {
			t.Errorf("frontends after the end: got %d, want 1", n)
		}
	})
}

func TestControllerFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("no memory")
	bubble(t, "P-24 a failing dataplane is tried less and less often, each time with a look", func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		r.backend.set(func(_, _ *vip.State) error { return broken }, false)
		wait(time.Second)
		from := r.count()
		r.put(t, "service a/b ips=10.0.0.2 ports=80")
		wait(2 * time.Second)
		at, looks := r.calls(from)
		ms := func(n int) time.Duration { return time.Second + time.Duration(n)*time.Millisecond }
		if want := []time.Duration{ms(0), ms(100), ms(300), ms(700), ms(1500)}; !slices.Equal(at, want) || slices.Contains(looks[1:], false) {
			t.Errorf("applies: got %v, looks %v; want %v", at, looks, want)
		}
		if s := r.controller.Status(); !errors.Is(s.LastError, broken) || s.Applied.Len() != 1 {
			t.Errorf("status: got error %v and %d applied frontends, want the error and what was there", s.LastError, s.Applied.Len())
		}
		wait(10 * time.Minute)
		at, _ = r.calls(0)
		if gap := at[len(at)-1] - at[len(at)-2]; gap != 30*time.Second {
			t.Errorf("longest delay: got %s, want 30s", gap)
		}
		r.backend.set(nil, false)
		wait(31 * time.Second)
		if s := r.controller.Status(); s.LastError != nil || s.Applied.Len() != 2 {
			t.Errorf("after it works again: got error %v and %d frontends", s.LastError, s.Applied.Len())
		}
	})
	bubble(t, "P-25 B59 a frontend that can't work costs only itself", func(t *testing.T) {
		r := newRig(t, nil)
		bad := frontend(t, "10.0.0.1:80")
		r.backend.FailWith(func(op viptest.Operation) error {
			if op.Frontend == bad {
				return broken
			}
			return nil
		})
		r.put(t, "service a/bad ips=10.0.0.1 ports=80\nservice a/good ips=10.0.0.2 ports=80")
		if s := r.controller.Status(); s.Failed[bad] == nil || s.LastError != nil || s.Applied.Len() != 1 {
			t.Errorf("status: got failed %v, error %v, %d applied", s.Failed, s.LastError, s.Applied.Len())
		}
		r.put(t, "service a/other ips=10.0.0.3 ports=80")
		wait(20 * time.Millisecond)
		r.backend.Operations()
		r.put(t, "service a/other ips=10.0.0.3 ports=81")
		wait(20 * time.Millisecond)
		for _, op := range r.backend.Operations() {
			if op.Frontend == bad {
				t.Errorf("the failed frontend was tried again before its time: %v", op)
			}
		}
		r.backend.FailWith(nil)
		wait(31 * time.Second)
		if s := r.controller.Status(); len(s.Failed) != 0 || s.Applied.Len() != 3 {
			t.Errorf("after it works: got failed %v, %d applied", s.Failed, s.Applied.Len())
		}
	})
	bubble(t, "a failed frontend that changes is tried at once", func(t *testing.T) {
		r := newRig(t, nil)
		r.backend.FailWith(func(op viptest.Operation) error {
			if op.Frontend == frontend(t, "10.0.0.1:80") {
				return broken
			}
			return nil
		})
		r.put(t, "service a/bad ips=10.0.0.1 ports=80")
		wait(5 * time.Second)
		r.backend.FailWith(nil)
		r.put(t, "service a/bad ips=10.0.0.1 ports=80 affinity=1h")
		wait(20 * time.Millisecond)
		if s := r.controller.Status(); len(s.Failed) != 0 || s.Applied.Len() != 1 {
			t.Errorf("status: got failed %v, %d applied", s.Failed, s.Applied.Len())
		}
	})
	bubble(t, "a failed removal is found by a look", func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, "service a/a ips=10.0.0.1 ports=80\nservice a/b ips=10.0.0.2 ports=80")
		wait(time.Second)
		r.backend.FailWith(func(op viptest.Operation) error {
			if op.Verb == "delete" {
				return broken
			}
			return nil
		})
		r.remove("a/b")
		wait(50 * time.Millisecond)
		r.backend.FailWith(nil)
		wait(time.Second)
		if got := r.backend.Frontends(); len(got) != 1 {
			t.Errorf("frontends: got %v, want one", got)
		}
	})
	bubble(t, "a failed frontend that nobody wants any more is forgotten", func(t *testing.T) {
		r := newRig(t, nil)
		r.backend.FailWith(func(op viptest.Operation) error {
			if op.Verb == "add" {
				return broken
			}
			return nil
		})
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		r.remove("a/a")
		wait(time.Second)
		from := r.count()
		wait(20 * time.Second)
		if s := r.controller.Status(); len(s.Failed) != 0 || r.count() != from {
			t.Errorf("got failed %v and %d applies, want none", s.Failed, r.count()-from)
		}
	})
	bubble(t, "L-04 B07 a hung apply ends, shows in the health, and is made good", func(t *testing.T) {
		r := newRig(t, nil)
		if h := r.controller.Health(); !h.Healthy {
			t.Error("not healthy before there is anything to do")
		}
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		r.backend.set(nil, true)
		r.put(t, "service a/b ips=10.0.0.2 ports=80")
		wait(59 * time.Second)
		if h := r.controller.Health(); !h.Healthy || h.Pending.IsZero() {
			t.Errorf("health after 59 s: got %+v", h)
		}
		wait(2 * time.Second)
		if h := r.controller.Health(); h.Healthy {
			t.Errorf("health after two sync periods: got %+v", h)
		}
		r.backend.set(nil, false)
		wait(time.Minute)
		if h := r.controller.Health(); !h.Healthy || !h.Pending.IsZero() || r.controller.Status().Applied.Len() != 2 {
			t.Errorf("health after it works: got %+v", h)
		}
	})
	bubble(t, "X02 a flush is healed once it has ended, within 2 s", func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, "service a/a ips=10.0.0.1 ports=80\nservice a/b ips=10.0.0.2 ports=80")
		wait(time.Second)
		from := r.count()
		for range 4 {
			r.backend.Flush(r.backend.Frontends()...)
			wait(50 * time.Millisecond)
		}
		wait(time.Second)
		at, looks := r.calls(from)
		if want := []time.Duration{time.Second + 250*time.Millisecond}; !slices.Equal(at, want) || !looks[0] {
			t.Errorf("applies: got %v, want one look at %v", at, want)
		}
		viptest.CheckPackets(t, r.backend, r.controller.Status().Desired)
	})
	bubble(t, "X02 a flusher that never ends does not stop the healing", func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		from := r.count()
		for range 100 {
			r.backend.Flush()
			wait(50 * time.Millisecond)
		}
		if n := r.count() - from; n < 4 || n > 6 {
			t.Errorf("looks in 5 s: got %d, want about one a second", n)
		}
	})
}

// TestControllerUnderFaults is the whole loop on a dataplane that fails in
// every way, while the cluster changes: it ends where it should, without ever
// breaking the contract towards the backend.
func TestControllerUnderFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := viptest.Rand(t)
		churn, fake := viptest.NewChurn(random), viptest.NewFake()
		operations, applies := viptest.NewFaults(t, viptest.DefaultFaultRate), viptest.NewFaults(t, viptest.DefaultFaultRate)
		fake.FailWith(operations.Operation)
		node := vip.NewCell(churn.Node())
		controller := vip.NewController(vip.Config{
			Desired: churn.Store, Nodes: node, ApplyTimeout: time.Second,
			Backend: &viptest.Faulty{Backend: fake, Faults: applies, Hangs: true},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- controller.Run(ctx) }()
		for range 200 {
			churn.Step()
			if random.IntN(20) == 0 {
				node.Set(churn.Node())
				fake.Flush()
			}
			wait(time.Duration(random.IntN(30)) * time.Millisecond)
		}
		operations.Stop()
		applies.Stop()
		wait(2 * time.Minute)
		viptest.CheckPackets(t, fake, vip.Planner{}.Plan(churn.Store.Current(), node.Current()))
		if s := controller.Status(); len(s.Failed) != 0 || s.LastError != nil {
			t.Errorf("status: failed %v, error %v", s.Failed, s.LastError)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, v := range fake.Violations() {
			t.Errorf("contract broken: %s", v)
		}
	})
}

type observed struct {
	mu     sync.Mutex
	rounds []vip.Round
}

func (o *observed) Observe(r vip.Round) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rounds = append(o.rounds, r)
}

// TestControllerObserver is L-06 and L-07: what changed is told once, with the
// round that brought it in, and only times after our start count.
func TestControllerObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &observed{}
		r := newRig(t, func(c *vip.Config) { c.Observer = o })
		const service = "service a/a ips=10.0.0.1 ports=80\nslice a ports=8080 trigger="
		r.put(t, service+"1999-01-01T00:00:00Z\nendpoint 172.16.0.1")
		wait(time.Second)
		r.backend.set(func(_, _ *vip.State) error { return errors.New("no") }, false)
		trigger := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
		r.put(t, service+trigger.Format(time.RFC3339)+"\nendpoint 172.16.0.1\nendpoint 172.16.0.2")
		r.backend.set(nil, false)
		wait(time.Second)
		if len(o.rounds) != 3 {
			t.Fatalf("rounds: got %+v, want 3", o.rounds)
		}
		first, failed, good := o.rounds[0], o.rounds[1], o.rounds[2]
		if first.Reason != vip.ReasonStart || first.Services != 1 || first.Slices != 1 || len(first.Triggers) != 0 {
			t.Errorf("first round: got %+v", first)
		}
		if failed.Reason != vip.ReasonChange || failed.Err == nil || failed.Slices != 0 {
			t.Errorf("failed round: got %+v", failed)
		}
		if good.Reason != vip.ReasonRetry || good.Services != 0 || good.Slices != 1 || !slices.EqualFunc(good.Triggers, []time.Time{trigger}, time.Time.Equal) {
			t.Errorf("good round: got %+v", good)
		}
	})
}
