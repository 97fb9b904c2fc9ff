package dnsserver

import (
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// fastCases are the kinds of questions that clusters ask most (A1).
var fastCases = []struct {
	name, qname, qtype string
	answers            int
}{
	{"ClusterIP A", "service-1.ns-1.svc.cluster.local.", "A", 1},
	{"AAAA NODATA", "service-1.ns-1.svc.cluster.local.", "AAAA", 0},
	{"NXDOMAIN search walk", "www.example.com.ns-1.svc.cluster.local.", "A", 0},
	{"NXDOMAIN of a service", "nosuch.ns-1.svc.cluster.local.", "AAAA", 0},
	{"headless 10", "service-50.ns-50.svc.cluster.local.", "A", 10},
	{"headless 1000", "big.ns.svc.cluster.local.", "A", 73},
	{"SRV", "_http._tcp.service-1.ns-1.svc.cluster.local.", "SRV", 1},
	{"SRV headless 10", "_http._tcp.service-50.ns-50.svc.cluster.local.", "SRV", 10},
	{"PTR", "1.0.96.10.in-addr.arpa.", "PTR", 1},
	{"PTR NXDOMAIN", "1.2.3.4.in-addr.arpa.", "PTR", 0},
	{"TXT", "dns-version.cluster.local.", "TXT", 1},
	{"CNAME", "alias.ns.svc.cluster.local.", "CNAME", 1},
	{"pod A", "10-1-2-3.ns-1.pod.cluster.local.", "A", 1},
}

// fastServer serves the benchmarks' cluster as kubeadm's Corefile would.
func fastServer(t testing.TB, services int) Config {
	t.Helper()
	store := benchStore(services)
	store.Update(func(tx *discovery.Tx) {
		tx.PutService(headlessOf(1000))
		tx.PutService(&discovery.Service{Key: discovery.Key{Namespace: "ns", Name: "alias"}, Kind: discovery.ExternalName, ExternalName: "www.Example.com"})
	})
	config := propertyConfig
	config.Pods = PodsInsecure
	c, _ := newTestCluster(t, config)
	c.update(store.Current())
	cfg := configFor()
	b := &cfg.Blocks[0]
	b.Cluster, b.Errors, b.LoadBalance = c, true, &LoadBalanceConfig{}
	return cfg
}

// fastReader is a read loop without a socket.
type fastReader struct {
	path *fastPath
	sv   *serving
	out  [maxUDPReply]byte
}

func newFastReader(t testing.TB, cfg Config) *fastReader {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &fastReader{path: newFastPath(s), sv: s.plan["127.0.0.1:0"]}
}

func (r *fastReader) answer(req []byte) (fastReply, bool) {
	in, v := inspect(req)
	if v != accept {
		return fastReply{}, false
	}
	reply, ok := r.path.answer(r.sv, protoUDP, req, &in, r.out[:0])
	if ok {
		done := r.path.answered(0, reply)
		done.count(0, 1)
	}
	return reply, ok
}

func TestFastPathDoesNotAllocate(t *testing.T) {
	r := newFastReader(t, fastServer(t, 100))
	for _, c := range fastCases {
		t.Run("A1 "+c.name, func(t *testing.T) {
			req := pack(t, askFor(c.qname, typeOf(c.qtype), edns(1232, false)))
			var reply fastReply
			ok := false
			allocs := testing.AllocsPerRun(100, func() { reply, ok = r.answer(req) })
			if !ok || allocs != 0 {
				t.Fatalf("answered %v, with %v allocations", ok, allocs)
			}
			if m := unpack(t, reply.wire); len(m.Answer) != c.answers || m.IsEdns0() == nil {
				t.Errorf("got %s", show(m))
			}
		})
	}
}

// BenchmarkFast is everything about a query but the system calls.
func BenchmarkFast(b *testing.B) {
	r := newFastReader(b, fastServer(b, benchServices))
	for _, c := range fastCases {
		b.Run(c.name, func(b *testing.B) {
			req := pack(b, askFor(c.qname, typeOf(c.qtype), edns(1232, false)))
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := r.answer(req); !ok {
					b.Fatal("not on the fast path")
				}
			}
		})
	}
}

// BenchmarkFastUDP is a query through sockets, with the client on the same
// cores; BenchmarkBareUDP is its floor, a loop that sends back what it reads.
func BenchmarkFastUDP(b *testing.B) {
	s := startWith(b, fastServer(b, 1000), nil)
	pingUDP(b, addrOf(s), pack(b, askFor(fastCases[0].qname, dns.TypeA)))
}

func BenchmarkBareUDP(b *testing.B) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, maxUDPRequest)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort(buf[:n], from) // the client notices
		}
	}()
	pingUDP(b, conn.LocalAddr().(*net.UDPAddr).AddrPort(), pack(b, askFor(fastCases[0].qname, dns.TypeA)))
	_ = conn.Close() // ends the loop
	<-done
}

// pingUDP keeps several requests in flight from each of several sockets.
func pingUDP(b *testing.B, to netip.AddrPort, req []byte) {
	b.ResetTimer() // the server was set up
	b.SetParallelism(4)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		const window = 16
		buf := make([]byte, maxUDPRequest)
		inFlight := 0
		for pb.Next() {
			if inFlight == window {
				if _, err := c.Read(buf); err != nil {
					b.Error(err)
				}
				inFlight--
			}
			if _, err := c.Write(req); err != nil {
				b.Error(err)
			}
			inFlight++
		}
		for range inFlight {
			if _, err := c.Read(buf); err != nil {
				b.Error(err)
			}
		}
	})
}
