package dnsserver

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"
)

// message builds a reply from sections in presentation form.
func message(t testing.TB, answer, ns, extra []string) *dns.Msg {
	t.Helper()
	return &dns.Msg{
		Answer: rrs(t, "a.example.", answer...), Ns: rrs(t, "a.example.", ns...), Extra: rrs(t, "a.example.", extra...),
	}
}

// numbered makes n records from a format with one number in it.
func numbered(n int, format string) []string {
	records := make([]string, n)
	for i := range records {
		records[i] = fmt.Sprintf(format, i)
	}
	return records
}

// TestFit checks W20: what is left out of a reply that is too large, and when
// TC tells so.
func TestFit(t *testing.T) {
	t.Parallel()
	soa := []string{"example. 5 IN SOA ns.example. host.example. 1 2 3 4 5"}
	srv := numbered(3, "@ 5 IN SRV 0 33 80 e%d.a.example.")
	glue := append(numbered(3, "e%d.a.example. 5 IN A 192.0.2.1"), numbered(3, "e%d.a.example. 5 IN AAAA 2001:db8::1")...)
	bigGlue := numbered(40, "e0.a.example. 5 IN A 192.0.2.%d")
	for _, tt := range []struct {
		name              string
		msg               *dns.Msg
		limit             int
		answer, ns, extra int
		truncated         bool
		ednsAsked         bool
	}{
		{name: "W20 fits", msg: message(t, srv, nil, glue), limit: 512, answer: 3, extra: 6},
		{
			name: "W20 B28 glue that doesn't fit goes without TC", msg: message(t, srv, nil, append(glue, bigGlue...)),
			limit: 512, answer: 3, extra: 6,
		},
		{name: "W20 no part of an RRset of glue", msg: message(t, srv, nil, bigGlue), limit: 512, answer: 3},
		{name: "W20 glue goes, OPT stays", msg: message(t, srv, nil, bigGlue), limit: 512, answer: 3, extra: 1, ednsAsked: true},
		{name: "W20 answer RRset too large", msg: message(t, many(100), nil, nil), limit: 512, answer: 30, truncated: true},
		{name: "W20 answer too large: SOA and glue go too", msg: message(t, many(100), soa, glue), limit: 512, answer: 30, truncated: true},
		{name: "W20 answer too large, OPT stays", msg: message(t, many(100), nil, nil), limit: 512, answer: 29, extra: 1, truncated: true, ednsAsked: true},
		{
			name: "name servers are a hint beside an answer", msg: message(t, many(28), numbered(9, "example. 5 IN NS ns%d.example."), nil),
			limit: 512, answer: 28,
		},
		{name: "SOA beside an answer (CNAME and NODATA) is part of it", msg: message(t, many(30), soa, nil), limit: 512, answer: 30, truncated: true},
		{
			name: "RFC 9471 referral whose glue doesn't fit", msg: message(t, nil, numbered(3, "sub.example. 5 IN NS ns%d.sub.example."), bigGlue),
			limit: 512, ns: 3, truncated: true,
		},
		{name: "NODATA with extras", msg: message(t, nil, soa, bigGlue), limit: 512, ns: 1},
		{name: "H22 64 KiB over TCP", msg: message(t, many(5000), nil, glue), limit: maxTCPSize, answer: 4094, truncated: true},
		{
			name: "H22 64 KiB over TCP, glue only too much", msg: message(t, many(4000), nil, numbered(400, "e%d.a.example. 5 IN A 192.0.2.1")),
			limit: maxTCPSize, answer: 4000, extra: 75,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := pack(t, askFor("a.example.", dns.TypeA))
			in, _ := inspect(req)
			shape := replyShape{limit: tt.limit}
			if tt.ednsAsked {
				shape.opt = &replyOPT{size: 1232}
			}
			wire, err := packReply(nil, req, &in, tt.msg, shape)
			if err != nil {
				t.Fatal(err)
			}
			got := unpack(t, wire)
			if len(got.Answer) != tt.answer || len(got.Ns) != tt.ns || len(got.Extra) != tt.extra || got.Truncated != tt.truncated {
				t.Errorf("answer %d authority %d additional %d TC %v; want %d %d %d %v", len(got.Answer), len(got.Ns),
					len(got.Extra), got.Truncated, tt.answer, tt.ns, tt.extra, tt.truncated)
			}
			if len(wire) > tt.limit {
				t.Errorf("%d octets, limit %d", len(wire), tt.limit)
			}
		})
	}
}

// TestFitEverySize cuts one message at every size: the result must always
// unpack, never exceed the limit, never have part of a record, and have TC
// exactly when an answer is missing.
func TestFitEverySize(t *testing.T) {
	t.Parallel()
	m := message(t, numbered(12, "@ 5 IN SRV 0 8 80 e%d.a.example."),
		[]string{"example. 5 IN NS ns.example."}, numbered(24, "e%d.a.example. 5 IN A 192.0.2.1"))
	req := pack(t, askFor("a.example.", dns.TypeSRV, edns(4096, false)))
	in, _ := inspect(req)
	for limit := minUDPSize; limit <= 1500; limit++ {
		wire, err := packReply(nil, req, &in, m, replyShape{limit: limit, opt: &replyOPT{size: 1232}})
		if err != nil {
			t.Fatal(err)
		}
		got := unpack(t, wire)
		if len(wire) > limit || got.Truncated != (len(got.Answer) < len(m.Answer)) || got.IsEdns0() == nil {
			t.Fatalf("limit %d: %d octets, %d answers, TC %v, OPT %v", limit, len(wire), len(got.Answer), got.Truncated, got.IsEdns0())
		}
	}
}

// TestPackReplyKeepsMessage checks that a shared message isn't changed by
// packing it.
func TestPackReplyKeepsMessage(t *testing.T) {
	t.Parallel()
	m := message(t, many(100), nil, []string{"x. 5 IN A 192.0.2.1"})
	m.SetEdns0(4096, true)
	before := m.Copy()
	req := pack(t, askFor("a.example.", dns.TypeA))
	in, _ := inspect(req)
	if _, err := packReply(nil, req, &in, m, replyShape{limit: 512, recursion: true}); err != nil {
		t.Fatal(err)
	}
	if m.String() != before.String() {
		t.Errorf("message changed from\n%v\nto\n%v", before, m)
	}
}
