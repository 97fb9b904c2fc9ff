package userspace

import (
	"io"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"testing"

	"signpost/discovery"
	"signpost/vip"
)

func BenchmarkTCPConnection(b *testing.B) {
	f := freeVIP(discovery.TCP)
	direct := echoTCP(b, "web-1", "127.1.0.1:0")
	back := newBackend(b, Config{})
	apply(b, back, nil, state(nil, server1(f, direct)))
	for name, to := range map[string]string{"proxied": at(f), "direct": direct.String()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c, err := net.Dial("tcp", to)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := readLine(c); err != nil {
					b.Fatal(err)
				}
				reset(c.(*net.TCPConn)) // no TIME_WAIT
			}
		})
	}
}

func BenchmarkTCPThroughput(b *testing.B) {
	sink, err := net.Listen("tcp", "127.1.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := sink.Accept()
			if err != nil {
				return
			}
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	b.Cleanup(func() { sink.Close(); <-done })
	f := freeVIP(discovery.TCP)
	back := newBackend(b, Config{})
	apply(b, back, nil, state(nil, server1(f, sink.Addr().(*net.TCPAddr).AddrPort())))
	c, err := net.Dial("tcp", at(f))
	if err != nil {
		b.Fatal(err)
	}
	chunk := make([]byte, 256<<10)
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if _, err := c.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	c.Close()
}

func BenchmarkUDPRoundTrip(b *testing.B) {
	f := freeVIP(discovery.UDP)
	back := newBackend(b, Config{})
	apply(b, back, nil, state(nil, server1(f, echoUDP(b, "dns-1", "127.1.0.1:0"))))
	c, err := net.Dial("udp", at(f))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 512)
	b.ReportAllocs()
	for b.Loop() {
		c.Write(buf[:64])
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// service makes one of many services, with some endpoints.
func service(i, endpoints int) *discovery.Service {
	slice := &discovery.Slice{Name: "web", Ports: []discovery.EndpointPort{{Port: 8080}}}
	for e := range endpoints {
		addr := netip.AddrFrom4([4]byte{127, byte(100 + i>>8), byte(i), byte(e + 1)})
		slice.Endpoints = append(slice.Endpoints, discovery.Endpoint{Addr: addr, Ready: true, Serving: true})
	}
	return &discovery.Service{
		Key:        discovery.Key{Namespace: "default", Name: "s" + strconv.Itoa(i)},
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{127, 95, byte(i >> 8), byte(i)})},
		Ports:      []discovery.Port{{Port: 31080}},
		Slices:     []*discovery.Slice{slice},
	}
}

// 10,000 frontends × 10 endpoints: the first round, and one endpoint's change.
func BenchmarkApply10000(b *testing.B) {
	store := discovery.NewStore()
	before := store.Update(func(tx *discovery.Tx) {
		for i := range 10000 {
			tx.PutService(service(i, 10))
		}
	})
	after := store.Update(func(tx *discovery.Tx) { tx.PutService(service(5000, 9)) })
	node := &vip.Node{}
	full := vip.Planner{}.Plan(before, node)
	states := [2]*vip.State{full, vip.Planner{}.Next(full, before, after, node)}

	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			back := New(Config{})
			apply(b, back, nil, full)
			b.StopTimer()
			back.Close()
			b.StartTimer()
		}
	})
	b.Run("change", func(b *testing.B) {
		back := newBackend(b, Config{})
		have := apply(b, back, nil, full)
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			i++
			have = apply(b, back, have, states[i%2])
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.StackInuse)/10000, "stack-B/frontend")
	})
}
