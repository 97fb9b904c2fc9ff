package viptest

import (
	"net/netip"
	"slices"
	"testing"

	"signpost/discovery"
	"signpost/vip"
)

// Dataplane is a backend whose packets a test can send.
type Dataplane interface {
	vip.Backend
	// Connect sends the first packet of a connection and says what became of it.
	Connect(p Packet) Result
}

// Model checks the properties that every backend has to have, on random
// clusters with broken objects in them. Each property gets dataplanes of its
// own from fresh, which may fail in every way that the contract allows.
func Model(t *testing.T, fresh func(t *testing.T) Dataplane) {
	t.Run("convergence: incremental equals fresh", func(t *testing.T) { converges(t, fresh) })
	t.Run("isolation: an invalid object changes nobody else's verdicts", func(t *testing.T) { isolates(t, fresh) })
	t.Run("no orphan: without services nothing is left", func(t *testing.T) { leavesNothing(t, fresh) })
}

// CheckPackets compares what a dataplane does with what the state means, for
// every packet of [Packets].
func CheckPackets(t testing.TB, d Dataplane, s *vip.State) {
	t.Helper()
	for _, p := range Packets(s) {
		if err := Expect(s, p).Check(p, d.Connect(p)); err != nil {
			t.Error(err)
		}
	}
}

const modelSteps = 40

// converges follows a random sequence of clusters and nodes with one dataplane
// and compares it, at each step, with the model and with one that sees the
// last state only.
func converges(t *testing.T, fresh func(t *testing.T) Dataplane) {
	random := Rand(t)
	churn, d := NewChurn(random), fresh(t)
	node := churn.Node()
	var planned, held *vip.State
	var before *discovery.Snapshot
	for range modelSteps {
		if random.IntN(8) == 0 {
			node = churn.Node()
		}
		after := churn.Step()
		planned = vip.Planner{}.Next(planned, before, after, node)
		before = after
		held = mustConverge(t, d, held, planned)
		CheckPackets(t, d, planned)

		other := fresh(t)
		mustConverge(t, other, nil, vip.Planner{}.Plan(after, node))
		CheckPackets(t, other, planned)
		if t.Failed() {
			t.Fatalf("in this state:\n%s", planned)
		}
	}
}

// isolates adds the worst service it knows to a random cluster.
func isolates(t *testing.T, fresh func(t *testing.T) Dataplane) {
	churn, d := NewChurn(Rand(t)), fresh(t)
	for range modelSteps / 4 {
		churn.Step()
	}
	node := churn.Node()
	without := vip.Planner{}.Plan(churn.Store.Current(), node)
	broken := churn.Store.Update(func(tx *discovery.Tx) { tx.PutService(invalid()) })
	with := vip.Planner{}.Plan(broken, node)
	mustConverge(t, d, nil, with)
	CheckPackets(t, d, without)
	if with.Plan(invalid().Key) == nil || len(with.Plan(invalid().Key).Warnings) == 0 {
		t.Error("nobody is told about the invalid service")
	}
}

func leavesNothing(t *testing.T, fresh func(t *testing.T) Dataplane) {
	churn, d := NewChurn(Rand(t)), fresh(t)
	var full *vip.State
	node := churn.Node()
	for range modelSteps / 4 {
		full = vip.Planner{}.Plan(churn.Step(), node)
	}
	held := mustConverge(t, d, nil, full)
	mustConverge(t, d, held, vip.NewState(&vip.Node{}))
	for _, p := range Packets(full) {
		if r := d.Connect(p); r.Action != Pass {
			t.Errorf("sending %s to an empty dataplane: got %s, want %s", p, r, Pass)
		}
	}
}

func mustConverge(t *testing.T, d Dataplane, have, want *vip.State) *vip.State {
	t.Helper()
	held, err := Converge(t.Context(), d, have, want)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// invalid is a service of which nothing can be programmed.
func invalid() *discovery.Service {
	return &discovery.Service{
		Key:         discovery.Key{Namespace: "default", Name: "bad\n-j ACCEPT"},
		ClusterIPs:  slices.Repeat([]netip.Addr{{}}, 3),
		ExternalIPs: []netip.Addr{addr("10.96.0.1"), addr("0.0.0.0")},
		Ports:       []discovery.Port{{Name: "\x00", Port: 0, Protocol: 255}},
		Slices:      []*discovery.Slice{{Ports: []discovery.EndpointPort{{}}, Endpoints: []discovery.Endpoint{{Ready: true}}}},
	}
}
