package dnsserver

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestTemplate checks CoreDNS's template: data, sections, codes, order and
// falling through (F7).
func TestTemplate(t *testing.T) {
	t.Parallel()
	s := serveBlock(t, func(b *Block) {
		b.Forwards = behind(t, "other.example. 9 IN A 192.0.2.1", "real.target. 9 IN A 192.0.2.2")
		b.Templates = []TemplateConfig{
			{
				Class: ClassIN, Type: dns.TypeA, Zones: []string{"example"}, Fallthrough: []string{"."},
				Match:      []string{`^ip-(?P<a>[0-9]*)-(?P<b>[0-9]*)\.example\.$`, `^hex(?P<a>[0-9]+)x(?P<b>[0-9a-f]+)\.example\.$`},
				Answer:     []string{"{{ .Name }} 60 IN A 10.0.{{ .Group.a }}.{{ parseInt .Group.b 16 8 }}"},
				Authority:  []string{"{{ .Zone }} 60 IN NS ns.{{ .Zone }}"},
				Additional: []string{"ns.{{ .Zone }} 60 IN A 192.0.2.53"},
			},
			{Class: ClassIN, Type: TypeANY, Zones: []string{"strict.example"}, Match: []string{"^yes"}, Answer: []string{`{{ .Name }} 1 IN TXT "{{ .Type }} {{ .Class }} {{ .Remote }} {{ .Question.Name }} {{ index .Match 0 }} {{ .Meta "x" }}"`}},
			{Class: ClassANY, Type: TypeANY, Zones: []string{"invalid"}, Rcode: dns.RcodeNameError, Error: &ExtendedError{21, "blocked"}, Authority: []string{"invalid. 60 {{ .Class }} SOA ns.invalid. hostmaster.invalid. (1 60 60 60 60)"}},
			{Class: ClassIN, Type: TypeANY, Zones: []string{"alias"}, Answer: []string{"{{ .Name }} 60 IN CNAME real.target."}},
			{Class: ClassIN, Type: TypeANY, Zones: []string{"broken"}, Answer: []string{"{{ .Name }} 60 IN A nonsense"}},
			{Class: ClassIN, Type: TypeANY, Zones: []string{"fails"}, Answer: []string{"{{ index .Match 7 }}"}},
		}
	})
	askAll(t, s, []asked{
		{"F7 groups and sections", "IP-1-10.example.", "A", "NOERROR [ip-1-10.example. 60 IN A 10.0.1.16] ns[example. 60 IN NS ns.example.] extra[ns.example. 60 IN A 192.0.2.53]"},
		{"F7 second expression", "hex2x10.example.", "A", "NOERROR [hex2x10.example. 60 IN A 10.0.2.16] ns[example. 60 IN NS ns.example.] extra[ns.example. 60 IN A 192.0.2.53]"},
		{"F7 falls through", "other.example.", "A", "NOERROR [other.example. 9 IN A 192.0.2.1]"},
		{"F7 data", "yes.strict.example.", "TXT", `NOERROR [yes.strict.example. 1 IN TXT "TXT IN 127.0.0.1 yes.strict.example. yes "]`},
		{"F7 doesn't fall through", "no.strict.example.", "TXT", "SERVFAIL"},
		{"F7 rcode", "a.invalid.", "A", "NXDOMAIN ns[invalid. 60 IN SOA ns.invalid. hostmaster.invalid. 1 60 60 60 60]"},
		{"F7 alias", "any.alias.", "A", "NOERROR [any.alias. 60 IN CNAME real.target.] [real.target. 9 IN A 192.0.2.2]"},
		{"F7 no record", "a.broken.", "A", "SERVFAIL"},
		{"F7 fails", "a.fails.", "A", "SERVFAIL"},
	})
	opt := overSocket(t, "udp", addrOf(s), "a.invalid.", "A", 1232).IsEdns0()
	if opt == nil || len(opt.Option) != 1 || !strings.Contains(opt.Option[0].String(), "blocked") {
		t.Errorf("F7 ederror: %v", opt)
	}
	chaos := askFor("a.invalid.", dns.TypeTXT)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	if m := queryUDP(t, addrOf(s), chaos); brief(m) != "NXDOMAIN ns[invalid. 60 CH SOA ns.invalid. hostmaster.invalid. 1 60 60 60 60]" {
		t.Errorf("F7 class CH: %s", brief(m))
	}
	const label = "dns://127.0.0.1:0"
	l := s.metrics.links
	if n := testutil.ToFloat64(l.rrFailures.WithLabelValues(label, "broken.", "", "IN", "A", "answer", "{{ .Name }} 60 IN A nonsense")); n != 1 {
		t.Errorf("coredns_template_rr_failures_total %v, want 1", n)
	}
	if n := testutil.ToFloat64(l.templateFailures.WithLabelValues(label, "fails.", "", "IN", "A", "answer", "{{ index .Match 7 }}")); n != 1 {
		t.Errorf("coredns_template_template_failures_total %v, want 1", n)
	}
	if n := testutil.ToFloat64(l.templateMatches.WithLabelValues(label, "example.", "", "IN", "A")); n != 2 {
		t.Errorf("coredns_template_matches_total %v, want 2", n)
	}
}
