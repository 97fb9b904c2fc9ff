package discovery

import (
	"fmt"
	"net/netip"
	"testing"
)

// The size that the design aims at.
const (
	benchServices  = 10_000
	benchEndpoints = 10
)

// benchStore holds 10,000 services of 10 endpoints, spread over namespaces.
func benchStore(namespaces int) *Store {
	store := NewStore()
	store.Update(func(tx *Tx) {
		for i := range benchServices {
			tx.PutService(benchService(i, namespaces, 0))
		}
		tx.MarkSynced()
	})
	return store
}

// benchService is service i in a version: the version changes one endpoint.
func benchService(i, namespaces, version int) *Service {
	s := &Service{
		Key:        benchKey(i, namespaces),
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
		Ports:      []Port{{Name: "http", Port: 80}},
		Slices:     []*Slice{{Name: "slice", Ports: []EndpointPort{{Name: "http", Port: 8080}}}},
	}
	for e := range benchEndpoints {
		n := i*benchEndpoints + e
		if e == 0 {
			n += version % 2 * benchServices * benchEndpoints
		}
		a := netip.AddrFrom4([4]byte{10, byte(128 + n>>16), byte(n >> 8), byte(n)})
		s.Slices[0].Endpoints = append(s.Slices[0].Endpoints, Endpoint{Addr: a, Ready: true, Serving: true})
	}
	return s
}

func benchKey(i, namespaces int) Key {
	return Key{fmt.Sprint("ns-", i%namespaces), fmt.Sprint("svc-", i)}
}

// BenchmarkPublish is one service's change: the goal is less than 1 ms.
func BenchmarkPublish(b *testing.B) {
	for _, namespaces := range []int{1, 100} {
		b.Run(fmt.Sprint("namespaces=", namespaces), func(b *testing.B) {
			store := benchStore(namespaces)
			b.ReportAllocs()
			version := 0
			for b.Loop() {
				version++
				store.Update(func(tx *Tx) { tx.PutService(benchService(77, namespaces, version)) })
			}
			if store.Current().Revision < 2 {
				b.Fatal("nothing was published")
			}
		})
	}
}

// BenchmarkPublishNothing is a source that delivers everything again.
func BenchmarkPublishNothing(b *testing.B) {
	store := benchStore(100)
	all := make([]*Service, benchServices)
	for i := range all {
		all[i] = benchService(i, 100, 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		store.Update(func(tx *Tx) {
			for _, s := range all {
				tx.PutService(s)
			}
		})
	}
}

// BenchmarkFill is the first delivery of everything.
func BenchmarkFill(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		benchStore(100)
	}
}

func BenchmarkGet(b *testing.B) {
	snap := benchStore(100).Current()
	keys := make([]Key, 1024)
	for i := range keys {
		keys[i] = benchKey(i*7, 100)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, ok := snap.Services.Get(keys[i%len(keys)]); !ok {
			b.Fatal("missing")
		}
		i++
	}
}

func BenchmarkServicesAt(b *testing.B) {
	snap := benchStore(100).Current()
	a := netip.AddrFrom4([4]byte{10, 96, 3, 4})
	b.ReportAllocs()
	for b.Loop() {
		if len(snap.ServicesAt(a)) != 1 {
			b.Fatal("missing")
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	for _, namespaces := range []int{1, 100} {
		b.Run(fmt.Sprint("namespaces=", namespaces), func(b *testing.B) {
			store := benchStore(namespaces)
			before := store.Current()
			after := store.Update(func(tx *Tx) { tx.PutService(benchService(77, namespaces, 1)) })
			b.ReportAllocs()
			for b.Loop() {
				changes := 0
				Diff(before.Services, after.Services, func(Key, *Service, *Service) { changes++ })
				if changes != 1 {
					b.Fatal(changes)
				}
			}
		})
	}
}

// BenchmarkFillShared is 10,000 services with one endpoint address, as those of
// a gateway have.
func BenchmarkFillShared(b *testing.B) {
	gateway := []*Slice{{Name: "slice", Endpoints: []Endpoint{{Addr: netip.MustParseAddr("10.128.0.1")}}}}
	for b.Loop() {
		NewStore().Update(func(tx *Tx) {
			for i := range benchServices {
				tx.PutService(&Service{Key: benchKey(i, 10), Slices: gateway})
			}
		})
	}
}
