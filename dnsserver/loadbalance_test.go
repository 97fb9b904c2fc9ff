package dnsserver

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// TestLoadBalance checks G10: what is shuffled and what keeps its place.
func TestLoadBalance(t *testing.T) {
	t.Parallel()
	answer := []string{
		"@ 5 IN CNAME b.example.",
		"b.example. 5 IN A 192.0.2.1", "b.example. 5 IN A 192.0.2.2", "b.example. 5 IN A 192.0.2.3",
		"b.example. 5 IN AAAA 2001:db8::1", "b.example. 5 IN AAAA 2001:db8::2",
		"b.example. 5 IN SRV 0 1 1 x.example.", "b.example. 5 IN SRV 0 1 1 y.example.",
		"b.example. 5 IN TXT a", "b.example. 5 IN TXT b",
		"b.example. 5 IN MX 1 x.example.", "b.example. 5 IN MX 1 y.example.",
	}
	for _, srv := range []bool{false, true} {
		shared := message(t, answer, nil, []string{"x.example. 5 IN A 192.0.2.1", "x.example. 5 IN A 192.0.2.2"})
		before := shared.String()
		h := loadBalance(&LoadBalanceConfig{SRV: srv})(dns.HandlerFunc(func(w dns.ResponseWriter, _ *dns.Msg) { _ = w.WriteMsg(shared) }))
		firsts := map[int]map[string]bool{}
		for range 200 {
			q := &query{internal: true}
			h.ServeDNS(q, askFor("a.example.", dns.TypeA))
			if len(q.reply.Answer) != len(answer) {
				t.Fatalf("%d records", len(q.reply.Answer))
			}
			for i, rr := range append(q.reply.Answer, q.reply.Extra...) {
				if firsts[i] == nil {
					firsts[i] = map[string]bool{}
				}
				firsts[i][rr.String()] = true
			}
		}
		want := []int{1, 3, 3, 3, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2} // how many records were seen in each place
		if srv {
			want[6], want[7] = 2, 2
		}
		for i, n := range want {
			if len(firsts[i]) != n {
				t.Errorf("G10 SRV %v, place %d: %d records, want %d", srv, i, len(firsts[i]), n)
			}
		}
		if shared.String() != before {
			t.Errorf("the shared message was changed:\n%s", strings.TrimSpace(shared.String()))
		}
	}
	if loadBalance(nil) != nil {
		t.Error("a link although it is off")
	}
}
