package dnsserver

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// keptAnswers are what upstreams said, for the fast path to repeat.
var keptAnswers = []struct {
	name, qtype string
	rcode       int
	records     []string // "ns:" and "ar:" in front of those of other sections
}{
	{"www.example.", "A", 0, []string{"@ 60 IN A 192.0.2.1"}},
	{"many.example.", "A", 0, []string{"@ 60 IN A 192.0.2.1", "@ 60 IN A 192.0.2.2", "@ 60 IN A 192.0.2.3", "@ 60 IN A 192.0.2.4"}},
	{"six.example.", "AAAA", 0, []string{"@ 60 IN AAAA 2001:db8::1", "@ 60 IN AAAA 2001:db8::2"}},
	{"alias.example.", "A", 0, []string{"@ 60 IN CNAME deep.in.the.example.org.", "deep.in.the.example.org. 60 IN A 192.0.2.1", "deep.in.the.example.org. 60 IN A 192.0.2.2"}},
	{"mail.example.", "MX", 0, []string{"@ 60 IN MX 10 a.mail.example.", "@ 60 IN MX 20 b.mail.example.", "ar:a.mail.example. 60 IN A 192.0.2.1", "ar:a.mail.example. 60 IN A 192.0.2.2"}},
	{"one.example.", "MX", 0, []string{"@ 60 IN MX 10 a.example."}},
	{"srv.example.", "SRV", 0, []string{"@ 60 IN SRV 1 2 3 a.example.", "ar:a.example. 60 IN AAAA 2001:db8::1", "ar:a.example. 60 IN A 192.0.2.2"}},
	{"text.example.", "TXT", 0, []string{`@ 60 IN TXT "` + strings.Repeat("x", 250) + `" "` + strings.Repeat("y", 250) + `" "` + strings.Repeat("z", 250) + `"`}},
	{"none.example.", "A", dns.RcodeNameError, []string{"ns:example. 60 IN SOA ns.example. h.example. 1 2 3 4 60"}},
	{"empty.example.", "AAAA", 0, []string{"ns:example. 60 IN SOA ns.example. h.example. 1 2 3 4 60"}},
	{"fails.example.", "A", dns.RcodeServerFailure, nil},
	{`a\.b\000.example.`, "A", 0, []string{"@ 60 IN A 192.0.2.1"}},
	{".", "NS", 0, []string{". 60 IN NS a.example.", "ar:a.example. 60 IN A 192.0.2.1"}},
}

// newKept starts nothing; it makes a server whose cache holds keptAnswers, for
// both values of DO and CD.
func newKept(t testing.TB, set func(*Block)) *differential {
	t.Helper()
	cfg := configFor()
	conf := DefaultCacheConfig()
	b := &cfg.Blocks[0]
	b.Cache, b.Forwards = &conf, []ForwardConfig{{From: ".", To: []string{"192.0.2.53"}}}
	set(b)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := &differential{s: s, sv: s.plan["127.0.0.1:0"], fast: newFastPath(s)}
	c := d.sv.routes["."].fast.others.(*cache)
	for _, kept := range keptAnswers {
		for i := range 4 {
			r := askFor(kept.name, typeOf(kept.qtype), edns(1232, i&1 != 0))
			r.CheckingDisabled = i&2 != 0
			var key cacheKey
			if !key.setQuestion(r) {
				t.Fatalf("no key for %q", kept.name)
			}
			if c.keep(nil, r, c.store.hash(&key), &key, keptReply(t, r, kept.rcode, kept.records)) == nil {
				t.Fatalf("%q isn't kept", kept.name)
			}
		}
	}
	return d
}

// keptReply is an upstream's reply.
func keptReply(t testing.TB, r *dns.Msg, rcode int, records []string) *dns.Msg {
	m := new(dns.Msg).SetRcode(r, rcode)
	m.RecursionAvailable, m.AuthenticatedData, m.Authoritative = true, true, true
	for _, record := range records {
		section, rest := &m.Answer, record
		switch {
		case strings.HasPrefix(record, "ns:"):
			section, rest = &m.Ns, record[3:]
		case strings.HasPrefix(record, "ar:"):
			section, rest = &m.Extra, record[3:]
		}
		*section = append(*section, rrs(t, r.Question[0].Name, rest)...)
	}
	return m
}

// TestCachedFast checks that the fast path says what the chain says of an
// answer that is kept: for every kind, transport, limit, flag and spelling.
func TestCachedFast(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*Block){
		"F3": func(b *Block) { b.Cache.KeepTTL = true },
		"F3 G10 shuffled": func(b *Block) {
			b.Cache.KeepTTL = true
			b.LoadBalance = &LoadBalanceConfig{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newKept(t, set)
			r := rand.New(rand.NewPCG(1, 2))
			for range 3000 {
				kept := keptAnswers[r.IntN(len(keptAnswers))]
				req := d.request(t, r, kept.name, kept.qtype)
				if req[2]&1 == 0 {
					continue // without RD the chain asks upstream
				}
				d.check(t, pick(r, protoUDP, protoTCP), req)
			}
			if d.hits < 800 {
				t.Errorf("only %d answers on the fast path", d.hits)
			}
		})
	}
}

// TestCachedFastTTL checks that TTLs are counted down there too, and that what
// has expired is left to the chain.
func TestCachedFastTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newKept(t, func(*Block) {})
		answer := func(name string) string {
			req := pack(t, askFor(name, dns.TypeA))
			in, _ := inspect(req)
			reply, ok := d.fast.answer(d.sv, protoUDP, req, &in, make([]byte, 0, maxUDPReply))
			if !ok {
				return "chain"
			}
			return oneLine(unpack(t, reply.wire))
		}
		for _, step := range []struct {
			wait       time.Duration
			name, want string
		}{
			{0, "WWW.example.", "NOERROR, 60 192.0.2.1"},
			{4 * time.Second, "www.example.", "NOERROR, 56 192.0.2.1"},
			{0, "none.example.", "NXDOMAIN, ns 56 SOA"},
			{0, "other.example.", "chain"},
			{0, "fails.example.", "chain"},
			{55900 * time.Millisecond, "www.example.", "NOERROR, 1 192.0.2.1"},
			{100 * time.Millisecond, "www.example.", "chain"},
		} {
			time.Sleep(step.wait)
			if got := answer(step.name); got != step.want {
				t.Errorf("%s: %s, want %s", step.name, got, step.want)
			}
		}
	})
}

// FuzzCachedFast ties the two paths together for any request.
func FuzzCachedFast(f *testing.F) {
	d := newKept(f, func(b *Block) { b.Cache.KeepTTL = true })
	for _, kept := range keptAnswers {
		f.Add(pack(f, askFor(kept.name, typeOf(kept.qtype))), false)
		f.Add(pack(f, askFor(kept.name, typeOf(kept.qtype), edns(1232, true))), true)
	}
	f.Fuzz(func(t *testing.T, req []byte, tcp bool) {
		p := protoUDP
		if tcp {
			p = protoTCP
		}
		d.check(t, p, req)
	})
}

// TestCachedFastDoesNotAllocate checks that a hit costs no memory.
func TestCachedFastDoesNotAllocate(t *testing.T) {
	d := newKept(t, func(b *Block) { b.LoadBalance, b.Metrics = &LoadBalanceConfig{}, true })
	out := make([]byte, 0, maxUDPReply)
	for _, kept := range []string{"www.example.", "many.example.", "none.example.", "alias.example."} {
		req := pack(t, askFor(kept, dns.TypeA, edns(1232, false)))
		in, _ := inspect(req)
		ok := false
		allocs := testing.AllocsPerRun(100, func() { _, ok = d.fast.answer(d.sv, protoUDP, req, &in, out) })
		if !ok || allocs != 0 {
			t.Errorf("%s: answered %v, with %v allocations", kept, ok, allocs)
		}
	}
}

// BenchmarkCached is a hit, without sockets, on both paths.
func BenchmarkCached(b *testing.B) {
	d := newKept(b, func(b *Block) { b.LoadBalance, b.Metrics = &LoadBalanceConfig{}, true })
	req := pack(b, askFor("www.example.", dns.TypeA, edns(1232, false)))
	in, _ := inspect(req)
	out := make([]byte, 0, maxUDPReply)
	b.Run("fast", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := d.fast.answer(d.sv, protoUDP, req, &in, out); !ok {
				b.Fatal("not on the fast path")
			}
		}
	})
	b.Run("chain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d.s.serve(&query{serving: d.sv, in: in, raw: req, client: discarding{}})
		}
	})
}

// BenchmarkCacheStore is what keeping and evicting an answer costs.
func BenchmarkCacheStore(b *testing.B) {
	conf := DefaultCacheConfig()
	s := newCacheStore(&conf)
	r := askFor("www.example.", dns.TypeA)
	m := keptReply(b, r, 0, keptAnswers[1].records)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var key cacheKey
		r.Question[0].Name = fmt.Sprintf("n%d.example.", i)
		key.setQuestion(r)
		e, err := newCacheEntry(&key, cacheSuccess, m, time.Minute, time.Now())
		if err != nil {
			b.Fatal(err)
		}
		s.put(s.hash(&key), e)
	}
}
