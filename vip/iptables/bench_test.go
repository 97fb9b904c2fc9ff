package iptables

import (
	"fmt"
	"net/netip"
	"testing"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// forEachSize runs a benchmark with both variants, with 100, 1,000 and 10,000
// services in an otherwise empty network namespace.
func forEachSize(b *testing.B, run func(b *testing.B, v variant, store *discovery.Store)) {
	for _, v := range variants {
		for _, n := range []int{100, 1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", v, n), func(b *testing.B) {
				viptest.InNamespace(b)
				run(b, v, viptest.ManyServices(n))
			})
		}
	}
}

// BenchmarkFirstSync writes all services into empty tables.
func BenchmarkFirstSync(b *testing.B) {
	forEachSize(b, func(b *testing.B, v variant, store *discovery.Store) {
		want := vip.Planner{}.Plan(store.Current(), testNode)
		for b.Loop() {
			backend := newBackend(b, v)
			mustApply(b, backend, nil, want)
			b.StopTimer()
			if err := backend.Cleanup(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}

// BenchmarkAdopt begins with tables that are right already, as after a restart.
func BenchmarkAdopt(b *testing.B) {
	forEachSize(b, func(b *testing.B, v variant, store *discovery.Store) {
		want := vip.Planner{}.Plan(store.Current(), testNode)
		mustApply(b, newBackend(b, v), nil, want)
		for b.Loop() {
			mustApply(b, newBackend(b, v), nil, want)
		}
	})
}

// BenchmarkLook is the periodic check of tables that nobody touched.
func BenchmarkLook(b *testing.B) {
	forEachSize(b, func(b *testing.B, v variant, store *discovery.Store) {
		want := vip.Planner{}.Plan(store.Current(), testNode)
		backend := newBackend(b, v)
		mustApply(b, backend, nil, want)
		for b.Loop() {
			mustApply(b, backend, nil, want)
		}
	})
}

// BenchmarkChange replaces one endpoint of one service, from the model to the
// kernel.
func BenchmarkChange(b *testing.B) {
	forEachSize(b, func(b *testing.B, v variant, store *discovery.Store) {
		planner, backend := vip.Planner{}, newBackend(b, v)
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
	})
}

// BenchmarkPayload compiles all services and writes their payload to nowhere.
func BenchmarkPayload(b *testing.B) {
	want := vip.Planner{}.Plan(viptest.ManyServices(10_000).Current(), testNode)
	b.ReportAllocs()
	for b.Loop() {
		l := newLedger(ip4, testNode, settings{randomFully: true})
		touched := map[group]bool{}
		for v := range want.All() {
			l.move(v.Frontend, v, touched)
		}
		c := l.plan(sorted(touched), true)
		b.SetBytes(int64(len(rewrite(natTable, c.writes[natTable], nil).end())))
	}
}

// BenchmarkManyEndpoints takes one of 10,000 endpoints from a service and gives
// it back (X19).
func BenchmarkManyEndpoints(b *testing.B) {
	for _, v := range variants {
		b.Run(string(v), func(b *testing.B) {
			viptest.InNamespace(b)
			endpoints := make([]vip.Endpoint, 10_000)
			for i := range endpoints {
				endpoints[i].AddrPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 128, byte(i >> 8), byte(i)}), 8080)
			}
			state := func(endpoints []vip.Endpoint) *vip.State {
				v := &vip.VirtualServer{Frontend: frontend("10.96.0.1:80"), Cluster: endpoints}
				return vip.NewState(testNode, &vip.ServicePlan{Servers: []*vip.VirtualServer{v}})
			}
			all, less := state(endpoints), state(endpoints[1:])
			backend := newBackend(b, v)
			mustApply(b, backend, nil, all)
			have, want := all, less
			for b.Loop() {
				mustApply(b, backend, have, want)
				have, want = want, have
			}
		})
	}
}
