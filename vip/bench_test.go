package vip_test

import (
	"fmt"
	"net/netip"
	"testing"

	"signpost/discovery"
	"signpost/vip"
)

const benchServices = 10_000

func benchService(i, endpoints int) *discovery.Service {
	s := &discovery.Service{
		Key:        discovery.Key{Namespace: fmt.Sprintf("ns%d", i%100), Name: fmt.Sprintf("svc%d", i)},
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
		Ports:      []discovery.Port{{Name: "http", Port: 80}},
	}
	if i%10 == 0 {
		s.Type, s.Ports[0].NodePort = discovery.TypeNodePort, uint16(30000+i/10)
	}
	slice := &discovery.Slice{Name: "a", Ports: []discovery.EndpointPort{{Name: "http", Port: 8080}}}
	for e := range endpoints {
		slice.Endpoints = append(slice.Endpoints, discovery.Endpoint{
			Addr: netip.AddrFrom4([4]byte{172, byte(16 + e), byte(i >> 8), byte(i)}), Node: fmt.Sprintf("n%d", e), Ready: true, Serving: true,
		})
	}
	s.Slices = []*discovery.Slice{slice}
	return s
}

func benchCluster() (*discovery.Store, *vip.Node) {
	store := discovery.NewStore()
	store.Update(func(tx *discovery.Tx) {
		for i := range benchServices {
			tx.PutService(benchService(i, 10))
		}
	})
	n := &vip.Node{Name: "n1", Addrs: []netip.Addr{netip.MustParseAddr("192.168.6.1")}}
	n.Detector.CIDRs = []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}
	return store, n
}

// BenchmarkPlanFull plans 10,000 services with 10 endpoints each from nothing.
func BenchmarkPlanFull(b *testing.B) {
	store, node := benchCluster()
	b.ReportAllocs()
	for b.Loop() {
		vip.Planner{}.Plan(store.Current(), node)
	}
}

// BenchmarkPlanOneChange plans the change of one service among 10,000.
func BenchmarkPlanOneChange(b *testing.B) {
	for name, service := range map[string]int{"ClusterIP": 5, "NodePort": 10} {
		b.Run(name, func(b *testing.B) {
			store, node := benchCluster()
			snapshots := [2]*discovery.Snapshot{store.Current(), store.Update(func(tx *discovery.Tx) { tx.PutService(benchService(service, 9)) })}
			p := vip.Planner{}
			state := p.Plan(snapshots[0], node)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				state = p.Next(state, snapshots[i%2], snapshots[(i+1)%2], node)
				i++
			}
		})
	}
}

// BenchmarkPlanNodeChange plans everything again because the node changed.
func BenchmarkPlanNodeChange(b *testing.B) {
	store, node := benchCluster()
	other := *node
	other.Zone = "b"
	nodes, i := [2]*vip.Node{node, &other}, 0
	p := vip.Planner{}
	state := p.Plan(store.Current(), node)
	b.ReportAllocs()
	for b.Loop() {
		i++
		state = p.Next(state, store.Current(), store.Current(), nodes[i%2])
	}
}

// BenchmarkPlanExtremes is X19: one service with very many endpoints, and one
// with very many external addresses.
func BenchmarkPlanExtremes(b *testing.B) {
	endpoints := benchService(1, 1)
	for i := range 10_000 {
		e := discovery.Endpoint{Addr: netip.AddrFrom4([4]byte{172, 20, byte(i), byte(i >> 8)}), Node: "n2", Ready: true, Serving: true}
		endpoints.Slices[0].Endpoints = append(endpoints.Slices[0].Endpoints, e)
	}
	addresses := benchService(2, 10)
	for i := range 1_000 {
		addresses.ExternalIPs = append(addresses.ExternalIPs, netip.AddrFrom4([4]byte{198, 18, byte(i), byte(i >> 8)}))
	}
	_, node := benchCluster()
	for name, s := range map[string]*discovery.Service{"10000 endpoints": endpoints, "1000 external IPs": addresses} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				vip.NewState(node, vip.Planner{}.Service(s, node))
			}
		})
	}
}

// BenchmarkChanges finds the one virtual server that differs among 10,000.
func BenchmarkChanges(b *testing.B) {
	store, node := benchCluster()
	p := vip.Planner{}
	before := p.Plan(store.Current(), node)
	after := p.Next(before, store.Current(), store.Update(func(tx *discovery.Tx) { tx.PutService(benchService(5, 9)) }), node)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range vip.Changes(before, after) {
			n++
		}
		if n != 1 {
			b.Fatalf("changes: got %d, want 1", n)
		}
	}
}
