package nftables

import (
	"testing"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// BenchmarkFirstSync writes 10,000 services with ten endpoints each into an
// empty kernel.
func BenchmarkFirstSync(b *testing.B) {
	viptest.InNamespace(b)
	want := vip.Planner{}.Plan(viptest.ManyServices(10_000).Current(), testNode)
	for b.Loop() {
		backend := newBackend(b)
		mustApply(b, backend, nil, want)
		b.StopTimer()
		if err := backend.Cleanup(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkAdopt begins with a kernel that is right already, as after a restart.
func BenchmarkAdopt(b *testing.B) {
	viptest.InNamespace(b)
	want := vip.Planner{}.Plan(viptest.ManyServices(10_000).Current(), testNode)
	mustApply(b, newBackend(b), nil, want)
	for b.Loop() {
		mustApply(b, newBackend(b), nil, want)
	}
}

// BenchmarkLook is the periodic check of a kernel that nobody touched.
func BenchmarkLook(b *testing.B) {
	viptest.InNamespace(b)
	want := vip.Planner{}.Plan(viptest.ManyServices(10_000).Current(), testNode)
	backend := newBackend(b)
	mustApply(b, backend, nil, want)
	for b.Loop() {
		mustApply(b, backend, nil, want)
	}
}

// BenchmarkChange replaces one endpoint of one of 10,000 services, from the
// model to the kernel.
func BenchmarkChange(b *testing.B) {
	viptest.InNamespace(b)
	store, planner, backend := viptest.ManyServices(10_000), vip.Planner{}, newBackend(b)
	snapshot := store.Current()
	have := planner.Plan(snapshot, testNode)
	mustApply(b, backend, nil, have)
	variant := byte(0)
	for b.Loop() {
		variant++
		next := store.Update(func(tx *discovery.Tx) { tx.PutService(viptest.OneOfMany(5, variant)) })
		want := planner.Next(have, snapshot, next, testNode)
		mustApply(b, backend, have, want)
		snapshot, have = next, want
	}
}
