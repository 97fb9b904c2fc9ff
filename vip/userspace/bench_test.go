package userspace

import (
	"io"
	"net"
	"net/netip"
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

// manyServers makes n frontends with ten endpoints each.
func manyServers(n int) []*vip.VirtualServer {
	servers := make([]*vip.VirtualServer, n)
	for i := range servers {
		f := vip.Frontend{Addr: netip.AddrFrom4([4]byte{127, 95, byte(i >> 8), byte(i)}), Port: 31080}
		v := server1(f)
		for e := range 10 {
			v.Cluster = append(v.Cluster, vip.Endpoint{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1, byte(i), byte(e + 1)}), 80)})
		}
		servers[i] = v
	}
	return servers
}

// 10,000 frontends × 10 endpoints: the first round, and one endpoint's change.
func BenchmarkApply10000(b *testing.B) {
	servers := manyServers(10000)
	full := state(nil, servers...)
	fewer := *servers[5000]
	fewer.Cluster = fewer.Cluster[1:]
	fewer.Owner = discovery.Key{Namespace: "default", Name: "s5000"}
	changed := append([]*vip.VirtualServer(nil), servers...)
	changed[5000] = &fewer

	b.Run("first", func(b *testing.B) {
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
		states := [2]*vip.State{full, stateLike(full, changed)}
		have := apply(b, back, nil, full)
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			i++
			have = apply(b, back, have, states[i%2])
		}
	})
}

// stateLike makes a state that shares every unchanged server with another one.
func stateLike(like *vip.State, servers []*vip.VirtualServer) *vip.State {
	plans := make([]*vip.ServicePlan, 0, len(servers))
	for _, v := range servers {
		keep := like.Get(v.Frontend)
		if len(keep.Cluster) != len(v.Cluster) {
			keep = v
		}
		plans = append(plans, &vip.ServicePlan{Owner: keep.Owner, Servers: []*vip.VirtualServer{keep}})
	}
	return vip.NewState(like.Node(), plans...)
}
