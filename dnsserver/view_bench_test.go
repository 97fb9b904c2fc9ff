package dnsserver

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// Sizes of the benchmarks' cluster.
const (
	benchServices  = 10_000
	benchEndpoints = 10 // of each service
	benchSpaces    = 100
)

// benchService makes service i: every fifth is headless, every tenth of those
// with hostnames. revision changes its first endpoint.
func benchService(i, revision int) *discovery.Service {
	s := &discovery.Service{
		Key:   discovery.Key{Namespace: fmt.Sprintf("ns-%d", i%benchSpaces), Name: fmt.Sprintf("service-%d", i)},
		Ports: []discovery.Port{{Name: "http", Port: 80}},
	}
	if i%5 == 0 {
		s.Kind = discovery.Headless
	} else {
		s.ClusterIPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}
	}
	slice := &discovery.Slice{Ports: []discovery.EndpointPort{{Name: "http", Port: 8080}}}
	for n := range benchEndpoints {
		id := i*benchEndpoints + n
		if n == 0 {
			id += revision << 20
		}
		e := discovery.Endpoint{Addr: netip.AddrFrom4([4]byte{byte(20 + id>>24), byte(id >> 16), byte(id >> 8), byte(id)}), Ready: true}
		if i%50 == 0 {
			e.Hostname = fmt.Sprintf("pod-%d", n)
		}
		slice.Endpoints = append(slice.Endpoints, e)
	}
	s.Slices = []*discovery.Slice{slice}
	return s
}

func benchStore(services int) *discovery.Store {
	store := discovery.NewStore()
	store.Update(func(tx *discovery.Tx) {
		tx.MarkSynced()
		for i := range services {
			tx.PutService(benchService(i, 0))
		}
	})
	return store
}

func benchView(services int) (*view, *discovery.Store) {
	store := benchStore(services)
	return newView(newViewConfig(propertyConfig), 1).advance(store.Current()), store
}

// lookupCases are the questions that have to be answered without allocation.
var lookupCases = []struct {
	name, qname, qtype string
	want               outcome
}{
	{"ClusterIP A", "service-1.ns-1.svc.cluster.local.", "A", answered},
	{"NODATA", "service-1.ns-1.svc.cluster.local.", "AAAA", empty},
	{"NXDOMAIN", "www.example.com.ns-1.svc.cluster.local.", "A", missing},
	{"NXDOMAIN service", "nosuch.ns-1.svc.cluster.local.", "A", missing},
	{"SRV", "_http._tcp.service-1.ns-1.svc.cluster.local.", "SRV", answered},
	{"headless A", "service-50.ns-50.svc.cluster.local.", "A", answered},
	{"headless SRV", "_http._tcp.service-50.ns-50.svc.cluster.local.", "SRV", answered},
	{"endpoint A", "pod-7.service-50.ns-50.svc.cluster.local.", "A", answered},
	{"endpoint by address", "20-0-0-55.service-5.ns-5.svc.cluster.local.", "A", answered},
	{"endpoint NXDOMAIN", "fd00--1.service-5.ns-5.svc.cluster.local.", "AAAA", missing},
	{"pod NXDOMAIN", "10-1-2-3.ns-1.pod.cluster.local.", "A", missing},
	{"PTR", "1.0.96.10.in-addr.arpa.", "PTR", answered},
	{"PTR NODATA", "96.10.in-addr.arpa.", "PTR", empty},
	{"PTR NXDOMAIN", "1.2.3.4.in-addr.arpa.", "PTR", missing},
	{"SOA", "cluster.local.", "SOA", answered},
	{"outside", "www.example.com.", "A", outside},
}

func TestLookupDoesNotAllocate(t *testing.T) {
	v, _ := benchView(100)
	for _, c := range lookupCases {
		t.Run(c.name, func(t *testing.T) {
			qtype, got := dns.StringToType[c.qtype], outside
			allocs := testing.AllocsPerRun(100, func() {
				var q queryName
				q.parse(c.qname)
				got = v.lookup(&q, qtype).outcome
			})
			if got != c.want || allocs != 0 {
				t.Errorf("got outcome %d with %v allocations, want %d with none", got, allocs, c.want)
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	v, _ := benchView(benchServices)
	for _, c := range lookupCases {
		b.Run(c.name, func(b *testing.B) {
			qtype := dns.StringToType[c.qtype]
			b.ReportAllocs()
			for b.Loop() {
				var q queryName
				q.parse(c.qname)
				if v.lookup(&q, qtype).outcome != c.want {
					b.Fatal("wrong outcome")
				}
			}
		})
	}
}

// BenchmarkAnswer is the whole way from message to message.
func BenchmarkAnswer(b *testing.B) {
	c := &Cluster{conf: newViewConfig(propertyConfig), start: newPatientStart(0)}
	v, _ := benchView(benchServices)
	c.view.Store(v)
	h := c.Middleware(nil)
	for _, lc := range lookupCases[:7] {
		b.Run(lc.name, func(b *testing.B) {
			req := new(dns.Msg).SetQuestion(lc.qname, dns.StringToType[lc.qtype])
			w := &recorder{}
			b.ReportAllocs()
			for b.Loop() {
				h.ServeDNS(w, req)
			}
		})
	}
}

// BenchmarkAdvance is one endpoint's change, from snapshot to view.
func BenchmarkAdvance(b *testing.B) {
	v, store := benchView(benchServices)
	revision := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		revision++
		snap := store.Update(func(tx *discovery.Tx) { tx.PutService(benchService(7, revision%100)) })
		b.StartTimer()
		v = v.advance(snap)
	}
}

// BenchmarkView makes the view of everything and reports what it holds.
func BenchmarkView(b *testing.B) {
	store := benchStore(benchServices)
	var v *view
	var before, after runtime.MemStats
	for b.Loop() {
		b.StopTimer()
		v = nil //nolint:ineffassign // lets go of the last one, whose memory would count
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		v = newView(newViewConfig(propertyConfig), 1).advance(store.Current())
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.StartTimer()
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/benchServices, "B/service")
	runtime.KeepAlive(v)
}
