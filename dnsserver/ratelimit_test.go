package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// counted is what came back for a burst of queries.
type counted struct{ whole, truncated, refused int }

// burst sends n queries over one socket and counts the replies; a query to the
// block "end.", which has no limit, tells when they are all through.
func burst(t *testing.T, s *Server, n int, name string, with ...func(*dns.Msg)) (c counted) {
	t.Helper()
	conn := dialUDP(t, addrOf(s))
	count := func(m *dns.Msg) {
		switch {
		case m.Truncated:
			c.truncated++
		case m.Rcode == dns.RcodeRefused:
			c.refused++
		default:
			c.whole++
		}
	}
	for range n {
		if _, err := conn.Write(pack(t, askFor(name, dns.TypeA, with...))); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(pack(t, askFor("end.", dns.TypeA))); err != nil {
			t.Fatal(err)
		}
		for {
			m := unpack(t, readUDP(t, conn))
			if m.Question[0].Name == "end." {
				break
			}
			count(m)
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(silence)) // those that "end." overtook
	for buf := make([]byte, 512); ; {
		size, err := conn.Read(buf)
		if err != nil {
			return c
		}
		count(unpack(t, buf[:size]))
	}
}

// limited is a server with a limit on all names but "end.".
func limited(t *testing.T, cfg RateLimitConfig) *Server {
	t.Helper()
	c := configFor()
	c.UDPSockets = 1
	c.Blocks[0].RateLimit = &cfg
	c.Blocks[0].Templates = []TemplateConfig{
		{Class: ClassIN, Type: TypeANY, Zones: []string{"gone"}, Rcode: dns.RcodeNameError},
		{Class: ClassIN, Type: TypeANY, Zones: []string{"wrong"}, Rcode: dns.RcodeServerFailure},
		{Class: ClassIN, Type: TypeANY, Answer: []string{"{{ .Name }} 5 IN A 192.0.2.1"}},
	}
	c.Blocks = append(c.Blocks, Block{
		Zones: []string{"end"}, Listen: c.Blocks[0].Listen,
		Templates: []TemplateConfig{{Class: ClassIN, Type: TypeANY, Zones: []string{"end"}}},
	})
	return startWith(t, c, nil)
}

// TestRateLimit checks the limits of replies and queries (W28).
func TestRateLimit(t *testing.T) {
	t.Parallel()
	one, none := 1, 0
	tests := []struct {
		name string
		cfg  RateLimitConfig
		want counted
	}{
		// One a second, ten saved: what comes within the test's time beyond
		// them is at most a few.
		{"W28 answers, every second one slips", RateLimitConfig{Responses: 1, Burst: 10}, counted{whole: 10, truncated: 15}},
		{"W28 all slip", RateLimitConfig{Responses: 1, Burst: 10, Slip: &one}, counted{whole: 10, truncated: 30}},
		{"W28 none slips", RateLimitConfig{Responses: 1, Burst: 10, Slip: &none}, counted{whole: 10}},
		{"W28 exempt", RateLimitConfig{Responses: 1, Burst: 1, Exempt: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, counted{whole: 40}},
		{"W28 queries of a client", RateLimitConfig{Queries: 1, Burst: 5}, counted{whole: 5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := limited(t, tt.cfg)
			got := burst(t, s, 40, "a.example.")
			const slack = 4
			if d := got.whole - tt.want.whole; d < 0 || d > slack {
				t.Errorf("whole replies: %+v, want %+v", got, tt.want)
			}
			if d := tt.want.truncated - got.truncated; d < 0 || d > slack || got.refused != 0 {
				t.Errorf("truncated replies: %+v, want %+v", got, tt.want)
			}
			if m := overSocket(t, "tcp", addrOf(s), "a.example.", "A", 0); tt.cfg.Queries == 0 && m.Rcode != dns.RcodeSuccess {
				t.Errorf("W28 over TCP: %s", brief(m))
			} else if tt.cfg.Queries > 0 && m.Rcode == dns.RcodeServerFailure {
				t.Errorf("W28 over TCP: %s", brief(m))
			}
		})
	}
}

// TestRateLimitKinds checks that kinds of replies don't use up each other's
// share.
func TestRateLimitKinds(t *testing.T) {
	t.Parallel()
	none := 0
	s := limited(t, RateLimitConfig{Responses: 1, NXDomains: 2, Errors: 1, Burst: 5, Slip: &none})
	for name, want := range map[string]int{"a.example.": 5, "a.gone.": 10, "a.wrong.": 5} {
		if got := burst(t, s, 20, name); got.whole < want || got.whole > want+4 {
			t.Errorf("W28 %s: %+v, want %d", name, got, want)
		}
	}
	dropped := testutil.ToFloat64(s.metrics.links.limited.WithLabelValues("dns://127.0.0.1:0", "dropped"))
	if dropped < 30 {
		t.Errorf("signpost_dns_rate_limited_total{action=dropped} %v", dropped)
	}
}

// TestRateLimitCookie checks that who has a cookie of ours is no victim (W18).
func TestRateLimitCookie(t *testing.T) {
	t.Parallel()
	none := 0
	s := limited(t, RateLimitConfig{Responses: 1, Burst: 5, Slip: &none})
	cookie := "0102030405060708"
	with := func(m *dns.Msg) {
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie}}
	}
	m := queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA, with))
	cookie = m.IsEdns0().Option[0].(*dns.EDNS0_COOKIE).Cookie
	if got := burst(t, s, 30, "a.example.", with); got.whole != 30 {
		t.Errorf("W18 W28 with a cookie: %+v, want all", got)
	}
}

// TestBucketTable checks that the memory of limits is bounded (W28).
func TestBucketTable(t *testing.T) {
	t.Parallel()
	const size = 1600
	table := newBucketTable(size)
	for i := range uint32(100_000) {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], i)
		table.allow(bucketKey{netip.PrefixFrom(netip.AddrFrom4(a), 32), kindAnswer}, 1, 1)
	}
	n := 0
	for i := range table.shards {
		n += table.shards[i].lru.Len()
	}
	if n > size {
		t.Errorf("%d shares remembered, want at most %d", n, size)
	}
}

func BenchmarkBucketTable(b *testing.B) {
	table := newBucketTable(defaultRateTable)
	key := bucketKey{netip.MustParsePrefix("192.0.2.0/24"), kindAnswer}
	b.ReportAllocs()
	for b.Loop() {
		table.allow(key, 1_000_000_000, 1_000_000_000)
	}
}
