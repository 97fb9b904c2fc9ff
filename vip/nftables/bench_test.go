package nftables

import (
	"fmt"
	"net/netip"
	"testing"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// manyServices is a cluster of 10,000 services with ten endpoints each.
func manyServices() *discovery.Store {
	store := discovery.NewStore()
	store.Update(func(tx *discovery.Tx) {
		for i := range 10_000 {
			tx.PutService(oneOfMany(i, 0))
		}
	})
	return store
}

// oneOfMany makes one of them; its last endpoint depends on the variant.
func oneOfMany(i int, variant byte) *discovery.Service {
	endpoints := make([]discovery.Endpoint, 10)
	for j := range endpoints {
		addr := netip.AddrFrom4([4]byte{10, 128 + byte(j), byte(i >> 8), byte(i)})
		if j == 9 && variant > 0 {
			addr = netip.AddrFrom4([4]byte{10, 200, 0, variant})
		}
		endpoints[j] = discovery.Endpoint{Addr: addr, Node: "other", Ready: true, Serving: true}
	}
	return &discovery.Service{
		Key:        discovery.Key{Namespace: "bench", Name: fmt.Sprint("service-", i)},
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
		Ports:      []discovery.Port{{Port: 80}},
		Slices:     []*discovery.Slice{{Ports: []discovery.EndpointPort{{Port: 8080}}, Endpoints: endpoints}},
	}
}

// BenchmarkFirstSync writes 10,000 services with ten endpoints each into an
// empty kernel.
func BenchmarkFirstSync(b *testing.B) {
	viptest.InNamespace(b)
	want := vip.Planner{}.Plan(manyServices().Current(), testNode)
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
	want := vip.Planner{}.Plan(manyServices().Current(), testNode)
	mustApply(b, newBackend(b), nil, want)
	for b.Loop() {
		mustApply(b, newBackend(b), nil, want)
	}
}

// BenchmarkLook is the periodic check of a kernel that nobody touched.
func BenchmarkLook(b *testing.B) {
	viptest.InNamespace(b)
	want := vip.Planner{}.Plan(manyServices().Current(), testNode)
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
	store, planner, backend := manyServices(), vip.Planner{}, newBackend(b)
	snapshot := store.Current()
	have := planner.Plan(snapshot, testNode)
	mustApply(b, backend, nil, have)
	variant := byte(0)
	for b.Loop() {
		variant++
		next := store.Update(func(tx *discovery.Tx) { tx.PutService(oneOfMany(5, variant)) })
		want := planner.Next(have, snapshot, next, testNode)
		mustApply(b, backend, have, want)
		snapshot, have = next, want
	}
}
