package dnsserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// cacheRig is a cache without sockets, for tests with a clock of their own.
type cacheRig struct {
	t     *testing.T
	srv   *Server
	cache *cache
	route *route

	mu    sync.Mutex
	reply func(r *dns.Msg) *dns.Msg
	asked int // how often the next handler was
}

// newCacheRig makes a cache; reply is what the next handler says.
func newCacheRig(t *testing.T, set func(*CacheConfig), reply func(r *dns.Msg) *dns.Msg) *cacheRig {
	t.Helper()
	conf := DefaultCacheConfig()
	if set != nil {
		set(&conf)
	}
	cfg := configFor()
	cfg.Blocks[0].Cache = &conf
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rig := &cacheRig{t: t, srv: s, reply: reply, route: s.plan["127.0.0.1:0"].routes["."]}
	rig.cache = s.newCache(&cfg.Blocks[0], s.life)
	rig.cache.wrap(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		rig.mu.Lock()
		rig.asked++
		reply := rig.reply
		rig.mu.Unlock()
		if m := reply(r); m != nil {
			_ = w.WriteMsg(m)
		}
	}))
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return rig
}

// ask puts a question to the cache.
func (c *cacheRig) ask(name string, qtype uint16, with ...func(*dns.Msg)) *dns.Msg {
	c.t.Helper()
	q := &query{
		srv: c.srv, serving: c.srv.plan["127.0.0.1:0"], route: c.route, client: absent{},
		start: time.Now(), ctx: c.t.Context(), internal: true,
	}
	c.cache.ServeDNS(q, askFor(name, qtype, with...))
	return q.reply
}

// say changes what the next handler says.
func (c *cacheRig) say(reply func(r *dns.Msg) *dns.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reply = reply
}

func (c *cacheRig) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// saying replies with records in the answer section, and those after "ns:" in
// the authority section.
func saying(t testing.TB, rcode int, records ...string) func(*dns.Msg) *dns.Msg {
	return func(r *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetRcode(r, rcode)
		m.RecursionAvailable, m.Authoritative = true, true
		for _, record := range records {
			rest, authority := strings.CutPrefix(record, "ns:")
			rr := rrs(t, r.Question[0].Name, rest)
			if authority {
				m.Ns = append(m.Ns, rr...)
			} else {
				m.Answer = append(m.Answer, rr...)
			}
		}
		return m
	}
}

// oneLine is a reply in one line: rcode, then owner-less records with TTLs.
func oneLine(m *dns.Msg) string {
	if m == nil {
		return "none"
	}
	parts := []string{dns.RcodeToString[m.Rcode]}
	for _, rr := range m.Answer {
		parts = append(parts, fmt.Sprintf("%d %s", rr.Header().Ttl, strings.TrimPrefix(rr.String(), rr.Header().String())))
	}
	for _, rr := range m.Ns {
		parts = append(parts, fmt.Sprintf("ns %d %s", rr.Header().Ttl, dns.TypeToString[rr.Header().Rrtype]))
	}
	return strings.Join(parts, ", ")
}

const (
	record60 = "@ 60 IN A 192.0.2.1"
	soa90    = "ns:example. 90 IN SOA ns.example. host.example. 1 2 3 4 20" // 20 s by its last field
)

// TestCacheTTL checks F3 and RFC 2308: what is kept, for how long, and which
// TTL it carries meanwhile.
func TestCacheTTL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		set  func(*CacheConfig)
		say  func(*dns.Msg) *dns.Msg
		// first is the answer at once, later the one after 4 s, from the cache if
		// it is kept at all; kept is for how many seconds it is.
		first, later string
		kept         int
	}{
		{"F3 success", nil, saying(t, 0, record60), "NOERROR, 60 192.0.2.1", "NOERROR, 56 192.0.2.1", 60},
		{"F3 the lowest TTL of all", nil, saying(t, 0, record60, "@ 30 IN A 192.0.2.2"), "NOERROR, 30 192.0.2.1, 30 192.0.2.2", "NOERROR, 26 192.0.2.1, 26 192.0.2.2", 30},
		{"F3 no more than the TTL of the cache", func(c *CacheConfig) { c.Success.TTL = 30 * time.Second }, saying(t, 0, record60), "NOERROR, 30 192.0.2.1", "NOERROR, 26 192.0.2.1", 30},
		{"F3 no less than the least", nil, saying(t, 0, "@ 0 IN A 192.0.2.1"), "NOERROR, 5 192.0.2.1", "NOERROR, 1 192.0.2.1", 5},
		{"F3 a TTL with the high bit is none", nil, saying(t, 0, "@ 4000000000 IN A 192.0.2.1"), "NOERROR, 5 192.0.2.1", "NOERROR, 1 192.0.2.1", 5},
		{"F3 keepttl", func(c *CacheConfig) { c.KeepTTL = true }, saying(t, 0, record60), "NOERROR, 60 192.0.2.1", "NOERROR, 60 192.0.2.1", 60},
		{"F3 TTL 0 in the Corefile", func(c *CacheConfig) { c.Success.TTL = 0 }, saying(t, 0, record60), "NOERROR, 0 192.0.2.1", "NOERROR, 0 192.0.2.1", 0},
		{"F3 RFC 2308 NXDOMAIN", nil, saying(t, dns.RcodeNameError, soa90), "NXDOMAIN, ns 20 SOA", "NXDOMAIN, ns 16 SOA", 20},
		{"F3 RFC 2308 NODATA", nil, saying(t, 0, soa90), "NOERROR, ns 20 SOA", "NOERROR, ns 16 SOA", 20},
		{"F3 RFC 2308 NODATA behind an alias", nil, saying(t, 0, "@ 10 IN CNAME b.example.", soa90), "NOERROR, 10 b.example., ns 10 SOA", "NOERROR, 6 b.example., ns 6 SOA", 10},
		{"F3 NODATA without SOA", nil, saying(t, 0), "NOERROR", "NOERROR", 0},
		{"F3 NXDOMAIN without SOA", nil, saying(t, dns.RcodeNameError), "NXDOMAIN", "NXDOMAIN", 0},
		{"B19 an alias alone", nil, saying(t, 0, "@ 60 IN CNAME b.example."), "NOERROR, 60 b.example.", "NOERROR, 60 b.example.", 0},
		{"F3 a referral", nil, saying(t, 0, "ns:example. 60 IN NS ns.example."), "NOERROR, ns 60 NS", "NOERROR, ns 60 NS", 0},
		{"F3 SERVFAIL for five seconds", nil, saying(t, dns.RcodeServerFailure), "SERVFAIL", "SERVFAIL", 5},
		{"F3 servfail 0", func(c *CacheConfig) { c.FailureTTL = 0 }, saying(t, dns.RcodeServerFailure), "SERVFAIL", "SERVFAIL", 0},
		{"F3 REFUSED", nil, saying(t, dns.RcodeRefused), "REFUSED", "REFUSED", 0},
		{"F3 truncated", nil, func(r *dns.Msg) *dns.Msg {
			m := saying(t, 0, record60)(r)
			m.Truncated = true
			return m
		}, "NOERROR, 60 192.0.2.1", "NOERROR, 60 192.0.2.1", 0},
		{"F3 another question", nil, func(r *dns.Msg) *dns.Msg {
			m := saying(t, 0, record60)(r)
			m.Question = []dns.Question{{Name: "b.example.", Qtype: dns.TypeA, Qclass: dns.ClassINET}}
			return m
		}, "NOERROR, 60 192.0.2.1", "NOERROR, 60 192.0.2.1", 0},
		{"F3 disable success", func(c *CacheConfig) { c.Success.Except = []string{"Example"} }, saying(t, 0, record60), "NOERROR, 60 192.0.2.1", "NOERROR, 60 192.0.2.1", 0},
		{"F3 disable denial", func(c *CacheConfig) { c.Denial.Except = []string{"."} }, saying(t, dns.RcodeNameError, soa90), "NXDOMAIN, ns 20 SOA", "NXDOMAIN, ns 20 SOA", 0},
		{"F3 another zone", func(c *CacheConfig) { c.Zones = []string{"example.org"} }, saying(t, 0, record60), "NOERROR, 60 192.0.2.1", "NOERROR, 60 192.0.2.1", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rig := newCacheRig(t, tt.set, tt.say)
				if got := oneLine(rig.ask("a.example.", dns.TypeA)); got != tt.first {
					t.Errorf("first %s, want %s", got, tt.first)
				}
				time.Sleep(4 * time.Second)
				if got := oneLine(rig.ask("A.example.", dns.TypeA)); got != tt.later {
					t.Errorf("after 4 s %s, want %s", got, tt.later)
				}
				if cached := rig.count() == 1; cached != (tt.kept > 0) {
					t.Fatalf("asked %d times; want kept %v", rig.count(), tt.kept > 0)
				}
				if tt.kept == 0 {
					return
				}
				time.Sleep(time.Duration(tt.kept-4)*time.Second - time.Millisecond)
				if rig.ask("a.example.", dns.TypeA); rig.count() != 1 {
					t.Errorf("asked again before %d s were over", tt.kept)
				}
				time.Sleep(time.Millisecond)
				if rig.ask("a.example.", dns.TypeA); rig.count() != 2 {
					t.Errorf("not asked again after %d s", tt.kept)
				}
			})
		})
	}
}

// TestCacheKey checks F3 and A31: what makes two questions different.
func TestCacheKey(t *testing.T) {
	t.Parallel()
	do := edns(1232, true)
	cd := func(m *dns.Msg) { m.CheckingDisabled = true }
	for _, tt := range []struct {
		name  string
		qname string
		qtype uint16
		with  func(*dns.Msg)
		same  bool
	}{
		{"F3 the same", "a.example.", dns.TypeA, nil, true},
		{"F3 other letters", "A.eXample.", dns.TypeA, nil, true},
		{"F3 EDNS without DO", "a.example.", dns.TypeA, edns(4096, false), true},
		{"F3 another name", "b.example.", dns.TypeA, nil, false},
		{"F3 another type", "a.example.", dns.TypeAAAA, nil, false},
		{"F3 DO", "a.example.", dns.TypeA, do, false},
		{"A31 CD", "a.example.", dns.TypeA, cd, false},
		{"F3 no recursion", "a.example.", dns.TypeA, func(m *dns.Msg) { m.RecursionDesired = false }, false},
		{"F3 a client subnet", "a.example.", dns.TypeA, func(m *dns.Msg) {
			m.SetEdns0(1232, false)
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1}}
		}, false},
	} {
		rig := newCacheRig(t, nil, saying(t, 0, record60))
		rig.ask("a.example.", dns.TypeA)
		with := tt.with
		if with == nil {
			with = func(*dns.Msg) {}
		}
		m := rig.ask(tt.qname, tt.qtype, with)
		if same := rig.count() == 1; same != tt.same {
			t.Errorf("%s: answered from the cache %v, want %v", tt.name, same, tt.same)
		}
		if m.Question[0].Name != tt.qname {
			t.Errorf("%s: question %q", tt.name, m.Question[0].Name)
		}
	}
	rig := newCacheRig(t, nil, saying(t, 0, record60))
	for range 2 {
		rig.ask("probe.example.", dns.TypeHINFO)
	}
	if rig.count() != 2 {
		t.Error("F2: the probe of loop was answered from the cache")
	}
}

// TestCacheReplaces checks F4 and A32: a name that is there now takes the
// place of its denial, and the other way round, stale ones served or not.
func TestCacheReplaces(t *testing.T) {
	t.Parallel()
	yes, no := saying(t, 0, "@ 10 IN A 192.0.2.1"), saying(t, dns.RcodeNameError, "ns:example. 10 IN SOA ns. h. 1 2 3 4 10")
	for name, stale := range map[string]time.Duration{"A32 without serve_stale": 0, "A32 with serve_stale": time.Hour} {
		for _, order := range [][2]func(*dns.Msg) *dns.Msg{{no, yes}, {yes, no}} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rig := newCacheRig(t, func(c *CacheConfig) { c.Stale.For = stale }, order[0])
					before := rig.ask("a.example.", dns.TypeA).Rcode
					rig.say(order[1])
					time.Sleep(11 * time.Second)
					rig.ask("a.example.", dns.TypeA) // old, with serve_stale
					synctest.Wait()
					for range 3 {
						if got := rig.ask("a.example.", dns.TypeA).Rcode; got == before {
							t.Errorf("still rcode %d", got)
						}
					}
					if rig.count() != 2 {
						t.Errorf("asked %d times, want 2", rig.count())
					}
				})
			})
		}
	}
}

// TestCacheBounds checks that neither entries nor octets grow beyond their
// limits.
func TestCacheBounds(t *testing.T) {
	t.Parallel()
	rig := newCacheRig(t, func(c *CacheConfig) { c.Success.Capacity, c.Denial.Capacity = 128, 1 }, saying(t, 0, record60))
	for i := range 400 {
		rig.ask(fmt.Sprintf("n%d.example.", i), dns.TypeA)
	}
	set := rig.cache.store.success
	if n := set.len(); n > 128 || n < 100 || set.evictions.Load() != uint64(400-n) {
		t.Errorf("%d entries, %d evicted; want at most 128 of 400", n, set.evictions.Load())
	}
	large := make([]string, 40)
	for i := range large {
		large[i] = fmt.Sprintf(`@ 60 IN TXT "%d" "%s"`, i, strings.Repeat("x", 250))
	}
	rig.say(saying(t, 0, large...)) // 11 KB each
	for i := range 400 {
		rig.ask(fmt.Sprintf("l%d.example.", i), dns.TypeTXT)
	}
	octets := 0
	for i := range set.shards {
		octets += set.shards[i].octets
	}
	if octets > 128*cachedOctets || octets <= 0 {
		t.Errorf("%d octets, want at most %d", octets, 128*cachedOctets)
	}
	rig.say(saying(t, 0, record60))
	for range 2 {
		if m := rig.ask("small.example.", dns.TypeA); len(m.Answer) != 1 {
			t.Errorf("reply %v", m)
		}
	}
}

// TestCacheSingleFlight checks that a question is asked once at a time, and
// that what others can't use is asked by everyone.
func TestCacheSingleFlight(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		say   func(*dns.Msg) *dns.Msg
		asked int
	}{
		{"F3 one for all", saying(t, 0, record60), 1},
		{"F3 a failure too", saying(t, dns.RcodeServerFailure), 1},
		{"F3 what isn't kept", saying(t, 0), 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rig := newCacheRig(t, nil, func(r *dns.Msg) *dns.Msg {
					time.Sleep(time.Second)
					return tt.say(r)
				})
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() { rig.ask("a.example.", dns.TypeA) })
				}
				all.Wait()
				if rig.count() != tt.asked {
					t.Errorf("asked %d times, want %d", rig.count(), tt.asked)
				}
			})
		})
	}
	t.Run("L11 a handler that panics lets the others go on", func(t *testing.T) {
		rig := newCacheRig(t, nil, saying(t, 0, record60))
		rig.say(func(*dns.Msg) *dns.Msg { panic("oops") })
		func() {
			defer func() { _ = recover() }()
			rig.ask("a.example.", dns.TypeA)
		}()
		rig.say(saying(t, 0, record60))
		if m := rig.ask("a.example.", dns.TypeA); len(m.Answer) != 1 {
			t.Errorf("reply %v", m)
		}
	})
}

// TestCacheConfig checks what is refused.
func TestCacheConfig(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*CacheConfig){
		"capacity": func(c *CacheConfig) { c.Success.Capacity = 0 },
		"ttl":      func(c *CacheConfig) { c.Denial.TTL = -1 },
		"zone":     func(c *CacheConfig) { c.Denial.Except = []string{"a..b"} },
		"servfail": func(c *CacheConfig) { c.FailureTTL = 6 * time.Minute },
		"prefetch": func(c *CacheConfig) { c.Prefetch = PrefetchConfig{Amount: 1, Percent: 5} },
		"stale":    func(c *CacheConfig) { c.Stale.Timeout = -1 },
	} {
		conf := DefaultCacheConfig()
		if err := conf.validate(); err != nil {
			t.Fatalf("F3 the defaults: %v", err)
		}
		set(&conf)
		if err := conf.validate(); err == nil {
			t.Errorf("F3 %s: no error", name)
		}
	}
}
