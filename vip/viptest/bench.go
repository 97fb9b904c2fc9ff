package viptest

import (
	"fmt"
	"net/netip"

	"signpost/discovery"
)

// ManyServices is a cluster of n services with ten endpoints each, for benchmarks.
func ManyServices(n int) *discovery.Store {
	store := discovery.NewStore()
	store.Update(func(tx *discovery.Tx) {
		for i := range n {
			tx.PutService(OneOfMany(i, 0))
		}
	})
	return store
}

// OneOfMany makes one of [ManyServices]. Its frontend is port 80 of 10.96.0.0
// plus i, its endpoints are port 8080 of addresses of other nodes; the last one
// depends on the variant.
func OneOfMany(i int, variant byte) *discovery.Service {
	endpoints := make([]discovery.Endpoint, 10)
	for j := range endpoints {
		addr := netip.AddrFrom4([4]byte{10, 128 + byte(j), byte(i >> 8), byte(i)})
		if j == 9 && variant > 0 {
			addr = netip.AddrFrom4([4]byte{10, 200, 0, variant})
		}
		endpoints[j] = discovery.Endpoint{Addr: addr, Node: "other", Ready: true, Serving: true}
	}
	return &discovery.Service{
		Key:        discovery.Key{Namespace: fmt.Sprint("bench-", i%100), Name: fmt.Sprint("service-", i)},
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
		Ports:      []discovery.Port{{Port: 80}},
		Slices:     []*discovery.Slice{{Ports: []discovery.EndpointPort{{Port: 8080}}, Endpoints: endpoints}},
	}
}
