package viptest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signpost/vip"
	"signpost/vip/viptest"
)

var sameFrontend = cmp.Comparer(func(a, b vip.Frontend) bool { return a == b })

const smallWorld = `
node n1 addrs=192.168.6.1 nodeports=192.168.6.1 pods=172.16.0.0/16 services=10.96.0.0/16
service default/web type=NodePort ips=10.96.0.7 ports=http:80->30080
slice a ports=http:8080
endpoint 172.16.0.1 node=n1
endpoint 172.16.0.2 node=n2
service default/none ips=10.96.0.8 ports=80
`

func plan(t testing.TB, text string) *vip.State {
	t.Helper()
	w, err := viptest.ParseWorld(text)
	if err != nil {
		t.Fatal(err)
	}
	return vip.Planner{}.Plan(w.Snapshot, w.Node)
}

func TestModel(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T) viptest.Dataplane{
		"no faults": func(*testing.T) viptest.Dataplane { return viptest.NewFake() },
		"10 % of the operations fail": func(t *testing.T) viptest.Dataplane {
			fake := viptest.NewFake()
			fake.FailWith(viptest.NewFaults(t, viptest.DefaultFaultRate).Operation)
			return watched(t, fake)
		},
		"applies fail as a whole, in part, or unheard": func(t *testing.T) viptest.Dataplane {
			fake := viptest.NewFake()
			fake.FailWith(viptest.NewFaults(t, viptest.DefaultFaultRate).Operation)
			watched(t, fake)
			return faultyFake{Faulty: &viptest.Faulty{Backend: fake, Faults: viptest.NewFaults(t, 50)}, fake: fake}
		},
	}
	for name, fresh := range tests {
		t.Run(name, func(t *testing.T) { t.Parallel(); viptest.Model(t, fresh) })
	}
}

type faultyFake struct {
	*viptest.Faulty
	fake *viptest.Fake
}

func (f faultyFake) Connect(p viptest.Packet) viptest.Result { return f.fake.Connect(p) }

// watched fails the test if somebody breaks the contract towards the fake.
func watched(t *testing.T, fake *viptest.Fake) *viptest.Fake {
	t.Cleanup(func() {
		for _, v := range fake.Violations() {
			t.Errorf("contract broken: %s", v)
		}
	})
	return fake
}

func TestFakeIdempotence(t *testing.T) {
	t.Parallel()
	fake, want := viptest.NewFake(), plan(t, smallWorld)
	apply(t, fake, nil, want)
	fake.Operations()

	apply(t, fake, want, want)
	if ops := fake.Operations(); len(ops) != 0 {
		t.Errorf("applying what is there: got %v, want no operation", ops)
	}
	apply(t, fake, nil, want)
	if diff := cmp.Diff([]viptest.Operation{{Verb: "list"}}, fake.Operations(), sameFrontend); diff != "" {
		t.Errorf("looking at what is right (-want +got):\n%s", diff)
	}
}

func TestFakeAddsBeforeDeletes(t *testing.T) {
	t.Parallel()
	fake := viptest.NewFake()
	before := plan(t, "service a/a ips=10.96.0.1 ports=80")
	after := plan(t, "service a/a ips=10.96.0.2 ports=80")
	apply(t, fake, nil, before)
	fake.Operations()
	apply(t, fake, before, after)
	var verbs []string
	for _, op := range fake.Operations() {
		verbs = append(verbs, op.Verb)
	}
	if diff := cmp.Diff([]string{"add", "delete"}, verbs); diff != "" {
		t.Errorf("order of operations (-want +got):\n%s", diff)
	}
}

func TestFakeLeavesForeignRulesAlone(t *testing.T) {
	t.Parallel()
	fake := viptest.NewFake()
	foreign := mustFrontend(t, "203.0.113.5:80/TCP")
	fake.AddForeign(foreign)
	want := plan(t, smallWorld)
	apply(t, fake, nil, want)
	if err := fake.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]vip.Frontend{foreign}, fake.Frontends(), sameFrontend); diff != "" {
		t.Errorf("what cleanup left (-want +got):\n%s", diff)
	}
}

func TestFakeReportsViolations(t *testing.T) {
	t.Parallel()
	fake, want := viptest.NewFake(), plan(t, smallWorld)
	apply(t, fake, want, want) // a lie: nothing is there
	if got := len(fake.Violations()); got != want.Len() {
		t.Errorf("violations: got %d, want %d", got, want.Len())
	}
}

func TestFakeFlushIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, want := viptest.NewFake(), plan(t, smallWorld)
		apply(t, fake, nil, want)
		ctx, cancel := context.WithCancel(t.Context())
		drifted, done := 0, make(chan error)
		go func() { done <- fake.Watch(ctx, func() { drifted++ }) }()
		synctest.Wait()
		fake.Flush()
		cancel()
		if err := <-done; err != nil || drifted != 1 {
			t.Errorf("watching: got %d drifts and error %v, want 1 and none", drifted, err)
		}
		apply(t, fake, nil, want)
		viptest.CheckPackets(t, fake, want)
	})
}

// TestFakeAffinity is P-16: a client stays, until its time is up or its
// endpoint goes (B36).
func TestFakeAffinity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const service = "node n1 pods=172.16.0.0/16\nservice a/a ips=10.96.0.1 ports=80 affinity=1m\nslice a ports=8080\n"
		fake := viptest.NewFake()
		both := plan(t, service+"endpoint 172.16.0.1\nendpoint 172.16.0.2\n")
		apply(t, fake, nil, both)
		p := viptest.Packet{Source: vip.FromPod, From: mustFrontend(t, "172.16.0.9:1").Addr, To: mustFrontend(t, "10.96.0.1:80")}
		first := fake.Connect(p).Endpoint
		for range 5 {
			time.Sleep(50 * time.Second) // the fake clock: each connection renews it
			if got := fake.Connect(p).Endpoint; got != first {
				t.Errorf("within the time: got %s, want %s", got, first)
			}
		}
		gone := plan(t, service+"endpoint 172.16.0.3\n")
		apply(t, fake, both, gone)
		if got := fake.Connect(p); got.Action != viptest.Forward || got.Endpoint == first {
			t.Errorf("the endpoint is gone: got %s", got)
		}
	})
}

func TestFaultyHangEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		hung := false
		faulty := &viptest.Faulty{Backend: viptest.NewFake(), Faults: viptest.NewFaults(t, 100), Hangs: true}
		for range 100 {
			if err := faulty.Apply(ctx, nil, plan(t, smallWorld)); errors.Is(err, context.DeadlineExceeded) {
				hung = true
				break
			}
		}
		if !hung {
			t.Error("a hundred faults without a hang")
		}
	})
}

func apply(t testing.TB, b vip.Backend, have, want *vip.State) {
	t.Helper()
	if err := b.Apply(t.Context(), have, want); err != nil {
		t.Fatal(err)
	}
}

func mustFrontend(t testing.TB, text string) vip.Frontend {
	t.Helper()
	f, err := vip.ParseFrontend(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
