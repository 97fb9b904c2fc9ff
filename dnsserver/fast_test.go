package dnsserver

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"signpost/discovery"
)

func TestWhichBlocksAreFast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		with func(b *Block, c *ClusterConfig)
		want bool
	}{
		{"cluster alone", func(*Block, *ClusterConfig) {}, true},
		{"kubeadm's", func(b *Block, _ *ClusterConfig) {
			b.Errors, b.Metrics, b.Loop = true, true, true
			b.LoadBalance, b.Cache = &LoadBalanceConfig{}, &CacheConfig{}
			b.Forwards = []ForwardConfig{{From: ".", To: []string{"127.0.0.1"}}}
		}, true},
		{"what comes after the cluster, or isn't about data", func(b *Block, _ *ClusterConfig) { b.MinimalANY, b.Whoami = true, true }, true},
		{"query log", func(b *Block, _ *ClusterConfig) { b.Logs = []LogConfig{{}} }, false},
		{"acl", func(b *Block, _ *ClusterConfig) { b.ACL = []ACLRule{{}} }, false},
		{"rewrite", func(b *Block, _ *ClusterConfig) { b.Rewrites = []RewriteRule{{}} }, false},
		{"minimal", func(b *Block, _ *ClusterConfig) { b.Minimal = true }, false},
		{"rate limit", func(b *Block, _ *ClusterConfig) { b.RateLimit = &RateLimitConfig{} }, false},
		{"autopath", func(b *Block, _ *ClusterConfig) { b.AutoPath = &AutoPathConfig{} }, false},
		{"hosts", func(b *Block, _ *ClusterConfig) { b.Hosts = &HostsConfig{} }, false},
		{"dns64", func(b *Block, _ *ClusterConfig) { b.DNS64 = &DNS64Config{} }, false},
		{"root zone", func(_ *Block, c *ClusterConfig) { c.Zones = []string{"."} }, false},
		{"zone with an escape", func(_ *Block, c *ClusterConfig) { c.Zones = []string{`a\.b.local`} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, config := Block{Zones: []string{"."}, Listen: []string{":53"}}, ClusterConfig{Zones: []string{"cluster.local"}}
			c.with(&b, &config)
			b.Cluster, _ = newTestCluster(t, config)
			if got := newFastBlock(&b, nil) != nil; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestFastPathCounts compares the counters of both paths after the same
// queries.
func TestFastPathCounts(t *testing.T) {
	t.Parallel()
	cfg := fastServer(t, 100)
	fast := newFastReader(t, cfg)
	chain, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range fastCases {
		for _, with := range []func(*dns.Msg){edns(1232, true), func(*dns.Msg) {}} {
			req := pack(t, askFor(c.qname, typeOf(c.qtype), with))
			if _, ok := fast.answer(req); !ok {
				t.Fatalf("%s: not on the fast path", c.name)
			}
			process(chain, protoUDP, req)
		}
	}
	got, want := countsOf(fast.sv), countsOf(chain.plan["127.0.0.1:0"])
	if got.requests != want.requests || got.do != want.do || got.responses != want.responses {
		t.Errorf("requests and responses: got %+v\nwant %+v", got, want)
	}
	for p := range numProtos {
		if got.requestSize[p] != want.requestSize[p] || got.responseSize[p] != want.responseSize[p] {
			t.Errorf("sizes over %v: got %v, want %v", p, got.responseSize[p], want.responseSize[p])
		}
	}
}

func countsOf(sv *serving) *tally { return sv.routes["."].counters.sum() }

// TestFastPathLeavesToTheChain are requests that the fast path must not touch.
func TestFastPathLeavesToTheChain(t *testing.T) {
	t.Parallel()
	r := newFastReader(t, fastServer(t, 100))
	const name = "service-1.ns-1.svc.cluster.local."
	cookie := func(m *dns.Msg) {
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}}
	}
	for _, c := range []struct {
		name string
		req  *dns.Msg
	}{
		{"S15 ANY", askFor(name, dns.TypeANY)},
		{"W25 AXFR", askFor("cluster.local.", dns.TypeAXFR)},
		{"W25 IXFR", askFor("cluster.local.", dns.TypeIXFR)},
		{"W18 a cookie", askFor(name, dns.TypeA, cookie)},
		{"W10 another class", askFor(name, dns.TypeA, func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS })},
		{"F2 a loop probe", askFor("1.2.", dns.TypeHINFO)},
		{"X2 an alias that leads on", askFor("alias.ns.svc.cluster.local.", dns.TypeA)},
		{"T12 outside of the zones", askFor("www.example.com.", dns.TypeA)},
		{"T2 name servers", askFor("cluster.local.", dns.TypeNS)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if reply, ok := r.answer(pack(t, c.req)); ok {
				t.Errorf("answered with %x", reply.wire)
			}
		})
	}
	t.Run("L2 before the source has spoken", func(t *testing.T) {
		cluster, _ := newTestCluster(t, ClusterConfig{Zones: []string{"cluster.local"}})
		cfg := configFor()
		cfg.Blocks[0].Cluster = cluster
		if reply, ok := newFastReader(t, cfg).answer(pack(t, askFor(name, dns.TypeA))); ok {
			t.Errorf("answered with %x", reply.wire)
		}
	})
}

// panicking is a cache with a bug.
type panicking struct{}

func (panicking) answerFast(*fastQuery, []byte) (fastReply, bool) { panic("a bug") }

func TestPanicOnTheFastPath(t *testing.T) {
	t.Parallel()
	s, err := New(fastServer(t, 10))
	if err != nil {
		t.Fatal(err)
	}
	sv := s.plan["127.0.0.1:0"]
	sv.routes["."].fast.others = panicking{}
	r := &fastReader{path: newFastPath(s), sv: sv}
	if _, ok := r.answer(pack(t, askFor("www.example.com.", dns.TypeA))); ok {
		t.Error("L11: answered by a panic")
	}
}

// TestBurst sends more at once than fits in a batch, some of it for the chain.
func TestBurst(t *testing.T) {
	t.Parallel()
	s := startWith(t, fastServer(t, 100), nil)
	c := dialUDP(t, addrOf(s))
	const burst = 5 * batchSize
	for id := range uint16(burst) {
		m := askFor(fastCases[int(id)%len(fastCases)].qname, typeOf(fastCases[int(id)%len(fastCases)].qtype))
		if id%7 == 0 {
			m = askFor("www.example.com.", dns.TypeA)
		}
		m.Id = id
		if _, err := c.Write(pack(t, m)); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[uint16]bool{}
	for range burst {
		m := unpack(t, readUDP(t, c))
		if want := m.Question[0].Name == "www.example.com."; seen[m.Id] || want != (m.Rcode == dns.RcodeRefused) {
			t.Fatalf("id %d twice, or the wrong answer: %s", m.Id, show(m))
		}
		seen[m.Id] = true
	}
}

// TestFastPathReplySource checks W26 for replies of the fast path: a connected socket
// takes none from another address.
func TestFastPathReplySource(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"0.0.0.0:0", ":0"} {
		cfg := fastServer(t, 10)
		cfg.Blocks[0].Listen = []string{listen}
		port := addrOf(startWith(t, cfg, nil)).Port()
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 9, 8, 7}), port)
		if m := queryUDP(t, to, askFor(fastCases[0].qname, dns.TypeA)); len(m.Answer) != 1 {
			t.Errorf("W26 on %q: got %s", listen, show(m))
		}
	}
}

// TestFastPathOverTCP sends several queries in one write (W22), among them one
// of another sort.
func TestFastPathOverTCP(t *testing.T) {
	t.Parallel()
	c := dialTCP(t, addrOf(startWith(t, fastServer(t, 100), nil)))
	var out []byte
	names := []string{fastCases[0].qname, "www.example.com.", "big.ns.svc.cluster.local."}
	for id, name := range names {
		m := askFor(name, dns.TypeA, edns(1232, false))
		m.Id = uint16(id)
		out = append(out, frame(pack(t, m))...)
	}
	c.TCPConn.SetNoDelay(true)
	c.send(out[:len(out)-5])
	c.send(out[len(out)-5:])
	want := map[uint16]int{0: 1, 1: 0, 2: 1000}
	for range names {
		m := unpack(t, c.recv())
		if n, ok := want[m.Id]; !ok || len(m.Answer) != n || m.Truncated {
			t.Errorf("id %d: %d answers, TC %v", m.Id, len(m.Answer), m.Truncated)
		}
		delete(want, m.Id)
	}
}

// TestFastPathDuringChanges is for the race detector: views are swapped and
// the server reloaded while queries come over both transports (A40, L9).
func TestFastPathDuringChanges(t *testing.T) {
	t.Parallel()
	store := discovery.NewStore()
	store.Update((*discovery.Tx).MarkSynced)
	put := func(n int) {
		store.Update(func(tx *discovery.Tx) { tx.PutService(headlessOf(n)) })
	}
	put(3)
	cluster := NewCluster(ClusterConfig{Zones: []string{"cluster.local"}}, store, slog.New(slog.DiscardHandler))
	cfg := configFor()
	cfg.Blocks[0].Cluster, cfg.Blocks[0].LoadBalance = cluster, &LoadBalanceConfig{SRV: true}
	s := startWith(t, cfg, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = cluster.Run(ctx) })
	wg.Go(func() {
		defer cancel()
		for n := range 200 {
			put(1 + n%9)
			if n%20 == 0 {
				if err := s.Reload(ctx, cfg); err != nil {
					t.Errorf("L9: reloading: %v", err)
				}
			}
		}
	})
	for _, network := range []string{"udp", "tcp"} {
		conn, err := net.Dial(network, addrOf(s).String())
		if err != nil {
			t.Fatal(err)
		}
		client := &dns.Conn{Conn: conn, UDPSize: 4096}
		wg.Go(func() { askWhile(ctx, t, client) })
	}
	wg.Wait()
}

// askWhile asks for SRV records until the context ends, and checks that each
// reply is of one revision.
func askWhile(ctx context.Context, t *testing.T, c *dns.Conn) {
	defer c.Close()
	for ctx.Err() == nil {
		if err := c.WriteMsg(askFor("_http._tcp.big.ns.svc.cluster.local.", dns.TypeSRV, edns(4096, false))); err != nil {
			t.Errorf("asking: %v", err)
			return
		}
		m, err := c.ReadMsg()
		if err != nil {
			t.Errorf("no reply: %v", err)
			return
		}
		if len(m.Answer) == 0 || len(m.Answer) != len(m.Extra)-1 {
			t.Errorf("a mixture of two revisions: %d records, %d addresses", len(m.Answer), len(m.Extra)-1)
		}
	}
}

func TestNetworkOrder(t *testing.T) {
	t.Parallel()
	var n uint16
	octets := [2]byte{0x12, 0x34}
	n = binary.NativeEndian.Uint16(octets[:])
	if got := networkOrder(n); got != 0x1234 {
		t.Errorf("got %x", got)
	}
}
