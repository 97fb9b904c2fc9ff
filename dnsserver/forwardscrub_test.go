package dnsserver

import (
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// section parses records and keeps them in order.
func section(t testing.TB, records []string) []dns.RR { return rrs(t, "a.example.", records...) }

// TestScrub checks F1: what an upstream may speak of.
func TestScrub(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name               string
		qtype              uint16
		answer, ns, extra  []string
		answers, nss, adds int
	}{
		{"F1 plain", dns.TypeA, []string{"@ 60 IN A 192.0.2.1"}, []string{"example. 60 IN NS ns.example."}, []string{"ns.example. 60 IN A 192.0.2.53"}, 1, 1, 1},
		{"F1 other letters", dns.TypeA, []string{"A.Example. 60 IN A 192.0.2.1"}, nil, nil, 1, 0, 0},
		{"F1 a name nobody asked for", dns.TypeA, []string{"@ 60 IN A 192.0.2.1", "bank.example.org. 60 IN A 203.0.113.66"}, nil, nil, 1, 0, 0},
		{"F1 aliases, in any order", dns.TypeA, []string{"c. 60 IN A 192.0.2.1", "b. 60 IN CNAME c.", "@ 60 IN CNAME b.", "d. 60 IN A 192.0.2.2"}, nil, nil, 3, 0, 0},
		{"F1 an alias that nothing leads to", dns.TypeA, []string{"@ 60 IN A 192.0.2.1", "x. 60 IN CNAME bank."}, nil, nil, 1, 0, 0},
		{"F1 aliases in a circle", dns.TypeA, []string{"@ 60 IN CNAME b.", "b. 60 IN CNAME a.example."}, nil, nil, 2, 0, 0},
		{"F1 DNAME", dns.TypeA, []string{"example. 60 IN DNAME example.org.", "@ 60 IN CNAME a.example.org.", "a.example.org. 60 IN A 192.0.2.1", "other. 60 IN DNAME bank."}, nil, nil, 3, 0, 0},
		{"F1 signatures", dns.TypeA, []string{"@ 60 IN A 192.0.2.1", "@ 60 IN RRSIG A 8 2 60 20300101000000 20200101000000 1 example. AAAA"}, nil, nil, 2, 0, 0},
		{"F1 the name servers of others", dns.TypeA, nil, []string{"org. 60 IN NS ns.evil.", "example.org. 60 IN SOA a. b. 1 2 3 4 5"}, []string{"ns.evil. 60 IN A 203.0.113.66"}, 0, 0, 0},
		{"F1 denial with proofs", dns.TypeA, nil, []string{
			"example. 60 IN SOA ns.example. h. 1 2 3 4 5", "b.example. 60 IN NSEC c.example. A",
			"b.example. 60 IN RRSIG NSEC 8 2 60 20300101000000 20200101000000 1 example. AAAA", "b.example.org. 60 IN NSEC c. A",
		}, nil, 0, 3, 0},
		{"F1 mail and its addresses", dns.TypeMX, []string{"@ 60 IN MX 10 m.example.net."}, nil, []string{"m.example.net. 60 IN A 192.0.2.1", "x.example.net. 60 IN A 192.0.2.2"}, 1, 0, 1},
		{"F1 services and their addresses", dns.TypeSRV, []string{"@ 60 IN SRV 1 1 1 S.example.net."}, nil, []string{"s.example.net. 60 IN AAAA 2001:db8::1"}, 1, 0, 1},
		{"F1 the root", dns.TypeA, nil, []string{". 60 IN SOA a.root-servers.net. b. 1 2 3 4 5"}, nil, 0, 1, 0},
	} {
		m := askFor("a.example.", tt.qtype)
		m.Response = true
		m.Answer, m.Ns, m.Extra = section(t, tt.answer), section(t, tt.ns), section(t, tt.extra)
		all := len(m.Answer) + len(m.Ns) + len(m.Extra)
		gone := scrub(m)
		if len(m.Answer) != tt.answers || len(m.Ns) != tt.nss || len(m.Extra) != tt.adds {
			t.Errorf("%s: %d, %d and %d records left; want %d, %d and %d", tt.name, len(m.Answer), len(m.Ns), len(m.Extra), tt.answers, tt.nss, tt.adds)
		}
		if gone != all-len(m.Answer)-len(m.Ns)-len(m.Extra) {
			t.Errorf("%s: %d gone", tt.name, gone)
		}
	}
}

// FuzzReply gives any bytes to what reads upstreams' replies, and to the cache
// behind it.
func FuzzReply(f *testing.F) {
	asked := askFor("a.example.", dns.TypeA)
	asked.Id = 1
	for _, kept := range keptAnswers {
		r := askFor(kept.name, typeOf(kept.qtype))
		r.Id = 1
		f.Add(pack(f, keptReply(f, r, kept.rcode, kept.records)), kept.name)
	}
	f.Fuzz(func(t *testing.T, wire []byte, name string) {
		r := new(dns.Msg)
		if r.Unpack(wire) == nil && len(r.Question) == 1 {
			asked = &dns.Msg{MsgHdr: dns.MsgHdr{Id: r.Id, Opcode: r.Opcode, RecursionDesired: true}, Question: r.Question}
		}
		reply, err := matching(asked, wire)
		if err != nil {
			return
		}
		scrub(reply)
		q := asked.Question[0]
		var key cacheKey
		kind, ttl := classify(reply, q)
		if kind == cacheNothing || !key.setQuestion(asked) {
			return
		}
		now := time.Now()
		e, err := newCacheEntry(&key, kind, reply, ttl, now)
		if err != nil {
			return
		}
		m, err := e.message(asked, 1)
		if err != nil {
			t.Fatalf("what was packed can't be unpacked: %v", err)
		}
		if len(m.Answer) != len(reply.Answer) || !strings.EqualFold(m.Question[0].Name, q.Name) {
			t.Errorf("kept %v of %v", m, reply)
		}
		for i := range e.sets {
			e.sets[i].shuffle(append([]byte(nil), e.wire...))
		}
	})
}
