package dnsserver

import (
	"net"
	"testing"

	"github.com/miekg/dns"
)

// TestRewrite checks each field and match of CoreDNS's rewrite, and what the
// client sees of it (F7).
func TestRewrite(t *testing.T) {
	t.Parallel()
	records := []string{
		"blue.example. 300 IN A 192.0.2.1", "web.prod.example. 300 IN A 192.0.2.2",
		"web.prod.example. 300 IN CNAME web.prod.example.", "ftp.service.us.consul. 300 IN A 192.0.2.3",
		"cdn.example. 300 IN CNAME slow.example.", "fast.example. 9 IN A 192.0.2.5",
		"3.2.0.192.in-addr.arpa. 60 IN PTR ftp.service.consul.", "srv.prod.example. 60 IN SRV 1 2 3 web.prod.example.",
		"new.x.example. 60 IN TXT moved",
	}
	s := serveBlock(t, func(b *Block) {
		b.Forwards = behind(t, records...)
		b.Rewrites = []RewriteRule{
			{Match: MatchSuffix, Field: RewriteTTL, From: "ttl.example", MinTTL: 30, MaxTTL: 60, Continue: true},
			{From: "RED.example", To: "blue.example"},
			{Match: MatchSuffix, From: ".stage.example", To: ".prod.example", AnswerAuto: true},
			{Match: MatchPrefix, From: "old.", To: "new."},
			{Match: MatchSubstring, From: "-mid-", To: ".", AnswerAuto: true},
			{
				Match: MatchRegex, From: `(.*)-(us)\.rocks`, To: "{1}.service.{2}.consul",
				AnswerNames: []NameRewrite{{`(.*)\.service\.(us)\.consul`, "{1}-{2}.rocks"}},
			},
			{
				Match: MatchSuffix, From: ".arpa", To: ".arpa", AnswerAuto: true,
				AnswerValues: []NameRewrite{{`(.*)\.service\.consul\.`, "{1}.rocks."}},
			},
			{Match: MatchExact, From: "blue.ttl.example", To: "blue.example"},
			{Match: MatchRegex, From: `^bad(.*)$`, To: "a..{1}"},
			{Field: RewriteRcode, From: "gone.example", FromCode: dns.RcodeNameError, ToCode: dns.RcodeRefused},
			{Field: RewriteType, FromCode: dns.TypeANY, ToCode: dns.TypeA},
			{Field: RewriteClass, FromCode: dns.ClassCHAOS, ToCode: dns.ClassINET},
		}
	})
	askAll(t, s, []asked{
		{"F7 exact, always undone", "Red.example.", "A", "NOERROR [Red.example. 300 IN A 192.0.2.1]"},
		{"F7 suffix auto", "web.stage.example.", "A", "NOERROR [web.stage.example. 300 IN A 192.0.2.2]"},
		{"F7 suffix auto in values", "srv.stage.example.", "SRV", "NOERROR [srv.stage.example. 60 IN SRV 1 2 3 web.stage.example.]"},
		{"F7 prefix, not undone", "old.x.example.", "TXT", `NOERROR [new.x.example. 60 IN TXT "moved"]`},
		{"F7 substring auto", "web-mid-prod.example.", "A", "NOERROR [web-mid-prod.example. 300 IN A 192.0.2.2]"},
		{"F7 regex with answer name", "ftp-us.rocks.", "A", "NOERROR [ftp-us.rocks. 300 IN A 192.0.2.3]"},
		{"F7 answer value", "3.2.0.192.in-addr.arpa.", "PTR", "NOERROR [3.2.0.192.in-addr.arpa. 60 IN PTR ftp.rocks.]"},
		{"F7 ttl and continue", "blue.ttl.example.", "A", "NOERROR [blue.ttl.example. 60 IN A 192.0.2.1]"},
		{"F7 not a name", "bad.example.", "A", "SERVFAIL"},
		{"F7 rcode", "gone.example.", "A", "REFUSED"},
		{"F7 type", "blue.example.", "ANY", "NOERROR [blue.example. 300 IN A 192.0.2.1]"},
		{"F7 no rule", "blue.example.", "A", "NOERROR [blue.example. 300 IN A 192.0.2.1]"},
	})
	chaos := askFor("blue.example.", dns.TypeA)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	if m := queryUDP(t, addrOf(s), chaos); m.Rcode != dns.RcodeSuccess || m.Question[0].Qclass != dns.ClassCHAOS {
		t.Errorf("F7 class: %s", brief(m))
	}
	cname := serveBlock(t, func(b *Block) {
		b.Forwards = behind(t, records...)
		b.Rewrites = []RewriteRule{{Field: RewriteCNAME, From: "slow.example", To: "fast.example"}}
	})
	askAll(t, cname, []asked{
		{"F7 cname", "cdn.example.", "CNAME", "NOERROR [cdn.example. 300 IN CNAME fast.example.]"},
	})
}

// TestRewriteClassElsewhere checks that other classes stay refused where no
// rule is about them (W10).
func TestRewriteClassElsewhere(t *testing.T) {
	t.Parallel()
	s := serveBlock(t, func(b *Block) {
		b.Rewrites = []RewriteRule{{Field: RewriteClass, FromCode: dns.ClassCHAOS, ToCode: dns.ClassINET}}
		b.Whoami = true
	})
	for class, want := range map[uint16]int{dns.ClassCHAOS: dns.RcodeSuccess, dns.ClassHESIOD: dns.RcodeRefused, dns.ClassANY: dns.RcodeRefused} {
		m := askFor("a.example.", dns.TypeA)
		m.Question[0].Qclass = class
		if got := queryUDP(t, addrOf(s), m); got.Rcode != want {
			t.Errorf("W10 class %d: %s, want %s", class, brief(got), rcodeLabel(want))
		}
	}
}

// TestRewriteEDNS0 checks what upstreams see of options.
func TestRewriteEDNS0(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		rule EDNS0Rewrite
		has  []dns.EDNS0
		want []dns.EDNS0
	}{
		{"set text", EDNS0Rewrite{Code: 65001, Data: "abc"}, nil, []dns.EDNS0{&dns.EDNS0_LOCAL{Code: 65001, Data: []byte("abc")}}},
		{"set hex", EDNS0Rewrite{Code: 65001, Data: "0x6162"}, nil, []dns.EDNS0{&dns.EDNS0_LOCAL{Code: 65001, Data: []byte("ab")}}},
		{"set a variable", EDNS0Rewrite{Code: 65001, Data: "{client_ip}"}, nil, []dns.EDNS0{&dns.EDNS0_LOCAL{Code: 65001, Data: []byte{127, 0, 0, 1}}}},
		{
			"append where it is",
			EDNS0Rewrite{Action: EDNS0Append, Code: 65001, Data: "new"},
			[]dns.EDNS0{&dns.EDNS0_LOCAL{Code: 65001, Data: []byte("old")}},
			[]dns.EDNS0{&dns.EDNS0_LOCAL{Code: 65001, Data: []byte("old")}},
		},
		{"replace where it isn't", EDNS0Rewrite{Action: EDNS0Replace, Code: 65001, Data: "new"}, nil, nil},
		{"unset", EDNS0Rewrite{Action: EDNS0Unset, Code: 65001}, []dns.EDNS0{&dns.EDNS0_LOCAL{Code: 65001, Data: []byte("old")}}, nil},
		{
			"subnet",
			EDNS0Rewrite{Code: dns.EDNS0SUBNET, V4Bits: 8, V6Bits: 56},
			nil,
			[]dns.EDNS0{&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 8, Address: net.IP{127, 0, 0, 0}}},
		},
		{"nsid", EDNS0Rewrite{Code: dns.EDNS0NSID}, nil, []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rule, err := compileRewrite(RewriteRule{Field: RewriteEDNS0, EDNS0: tt.rule})
			if err != nil {
				t.Fatal(err)
			}
			seen := make(chan *dns.Msg, 1)
			s := startWith(t, configFor(), dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
				rewriteQuery([]*rewriteRule{rule}, w, r, dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
					seen <- r.Copy()
					refuse(w, r)
				}))
			}))
			req := askFor("a.example.", dns.TypeA)
			if tt.has != nil {
				req.SetEdns0(1232, false)
				req.IsEdns0().Option = tt.has
			}
			queryUDP(t, addrOf(s), req)
			var got []dns.EDNS0
			if opt := (<-seen).IsEdns0(); opt != nil {
				got = opt.Option
			}
			if len(got) != len(tt.want) {
				t.Fatalf("options %v, want %v", got, tt.want)
			}
			for i := range got {
				if got[i].String() != tt.want[i].String() {
					t.Errorf("option %v, want %v", got[i], tt.want[i])
				}
			}
		})
	}
	for _, bad := range []EDNS0Rewrite{{Data: "0xzz"}, {Data: "{nobody}"}, {V4Bits: 33}, {Action: 9}} {
		if _, err := compileRewrite(RewriteRule{Field: RewriteEDNS0, EDNS0: bad}); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// FuzzRewriteName gives rules any names: no panic, and what comes out is a name
// or an error.
func FuzzRewriteName(f *testing.F) {
	f.Add(uint8(0), "a.example.", "b.example.", "A.example.")
	f.Add(uint8(2), ".a.", ".b.", "x.a.")
	f.Add(uint8(4), `(.*)\.a\.`, "{1}.{2}.{0}", "x.a.")
	f.Add(uint8(3), ".", "", "x.a.")
	f.Fuzz(func(t *testing.T, match uint8, from, to, name string) {
		rule, err := compileRewrite(RewriteRule{Match: RewriteMatch(match % 5), From: from, To: to, AnswerAuto: true})
		if err != nil {
			return
		}
		p := rewritePass{req: &dns.Msg{Question: []dns.Question{{Name: name, Qtype: dns.TypeA, Qclass: dns.ClassINET}}}}
		matched, err := rule.apply(&p)
		if err != nil || !matched {
			return
		}
		if _, ok := dns.IsDomainName(p.req.Question[0].Name); !ok {
			t.Errorf("%q became %q", name, p.req.Question[0].Name)
		}
		for _, e := range p.edits {
			e.edit(nil, &dns.Msg{Answer: []dns.RR{&dns.CNAME{Hdr: dns.RR_Header{Name: p.req.Question[0].Name}, Target: to}}})
		}
	})
}
