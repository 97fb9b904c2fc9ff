package allocator

import (
	"fmt"
	"testing"
)

func many(b *testing.B, n int) (*Allocator, []Request) {
	a := newTestAllocator(b, withState(statePath(b)), func(cfg *Config) { cfg.BalancerPools = prefixes("10.200.0.0/16") })
	reqs := make([]Request, n)
	for i := range reqs {
		reqs[i] = Request{
			Owner: fmt.Sprintf("ns-%d/service-%d", i%100, i), Families: []Family{IPv4, IPv6}, Balancer: BalancerRequest{Allocate: true},
			Ports: []PortRequest{{Name: "http", Protocol: "TCP", Port: 80, Allocate: i < 1000}},
		}
	}
	a.Allocate(reqs)
	if err := a.Save(); err != nil {
		b.Fatal(err)
	}
	return a, reqs
}

func BenchmarkRebuild10000(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		many(b, 10_000)
	}
}

// BenchmarkChange: one service of 10,000 comes and goes.
func BenchmarkChange(b *testing.B) {
	a, _ := many(b, 10_000)
	req := []Request{anyRequest("n/new")}
	b.ReportAllocs()
	for b.Loop() {
		a.Allocate(req)
		a.Release("n/new")
	}
}

func BenchmarkChangeAndSave(b *testing.B) {
	a, _ := many(b, 10_000)
	req := []Request{anyRequest("n/new")}
	b.ReportAllocs()
	for b.Loop() {
		a.Allocate(req)
		if err := a.Save(); err != nil {
			b.Fatal(err)
		}
		a.Release("n/new")
	}
}
