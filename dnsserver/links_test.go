package dnsserver

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// serveBlock starts a server with one block for all names.
func serveBlock(t testing.TB, edit func(*Block)) *Server {
	t.Helper()
	cfg := configFor()
	edit(&cfg.Blocks[0])
	return startWith(t, cfg, nil)
}

// behind is a server that the block under test forwards to.
func behind(t testing.TB, records ...string) []ForwardConfig {
	t.Helper()
	up := startWith(t, configFor(), &fakeUpstream{records: rrs(t, "", records...)})
	return []ForwardConfig{{From: ".", To: []string{addrOf(up).String()}}}
}

// brief is a reply in one line: the code, and the records of each section that
// has any.
func brief(m *dns.Msg) string {
	var b strings.Builder
	b.WriteString(rcodeLabel(m.Rcode))
	if m.Truncated {
		b.WriteString(" TC")
	}
	for i, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if rr.Header().Rrtype != dns.TypeOPT {
				fmt.Fprintf(&b, " %s[%s]", [...]string{"", "ns", "extra"}[i], strings.Join(strings.Fields(rr.String()), " "))
			}
		}
	}
	return b.String()
}

// asked is one question and what is to be said to it.
type asked struct{ name, qname, qtype, want string }

// askAll asks over UDP.
func askAll(t *testing.T, s *Server, questions []asked) {
	t.Helper()
	for _, q := range questions {
		if got := brief(overSocket(t, "udp", addrOf(s), q.qname, q.qtype, 1232)); got != q.want {
			t.Errorf("%s: %s %s\n got %s\nwant %s", q.name, q.qname, q.qtype, got, q.want)
		}
	}
}

const localSOAText = " 604800 IN SOA localhost. root.localhost. 1 0 0 0 604800]"

// TestLocal checks CoreDNS's local: RFC 6303 zones, and localhost with a
// search domain behind it (F7).
func TestLocal(t *testing.T) {
	t.Parallel()
	s := serveBlock(t, func(b *Block) { b.Local = &LocalConfig{}; b.Forwards = behind(t, "localhost.off. 9 IN A 192.0.2.9") })
	askAll(t, s, []asked{
		{"F7 A", "LocalHost.", "A", "NOERROR [LocalHost. 604800 IN A 127.0.0.1]"},
		{"F7 AAAA", "localhost.", "AAAA", "NOERROR [localhost. 604800 IN AAAA ::1]"},
		{"F7 another type", "localhost.", "MX", "NOERROR ns[localhost." + localSOAText},
		{"F7 below localhost", "a.localhost.", "A", "NOERROR [a.localhost. 604800 IN A 127.0.0.1]"},
		{"F7 with a domain", "localhost.example.com.", "A", "NOERROR [localhost.example.com. 604800 IN A 127.0.0.1]"},
		{"F7 reverse", "1.0.0.127.in-addr.arpa.", "PTR", "NOERROR [1.0.0.127.in-addr.arpa. 604800 IN PTR localhost.]"},
		{"G8 reverse, another type", "1.0.0.127.in-addr.arpa.", "A", "NOERROR ns[127.in-addr.arpa." + localSOAText},
		{"G8 above it", "0.127.in-addr.arpa.", "A", "NOERROR ns[127.in-addr.arpa." + localSOAText},
		{"F7 apex", "0.in-addr.arpa.", "NS", "NOERROR [0.in-addr.arpa. 604800 IN NS localhost.]"},
		{"F7 missing", "9.255.in-addr.arpa.", "PTR", "NXDOMAIN ns[255.in-addr.arpa." + localSOAText},
		{"F7 not ours", "www.example.", "A", "NXDOMAIN"},
	})
	if n := testutil.ToFloat64(s.metrics.links.local); n != 2 {
		t.Errorf("coredns_local_localhost_requests_total %v, want 2", n)
	}
	off := serveBlock(t, func(b *Block) {
		b.Local, b.Forwards = &LocalConfig{NoPrefix: true}, behind(t, "localhost.off. 9 IN A 192.0.2.9")
	})
	askAll(t, off, []asked{{"F7 prefix off", "localhost.off.", "A", "NOERROR [localhost.off. 9 IN A 192.0.2.9]"}})
}

// TestAnyMinimalWhoami checks the smallest directives.
func TestAnyMinimalWhoami(t *testing.T) {
	t.Parallel()
	s := serveBlock(t, func(b *Block) { b.MinimalANY, b.Whoami = true, true })
	askAll(t, s, []asked{
		{"S15 ANY", "www.example.", "ANY", `NOERROR [www.example. 8482 IN HINFO "ANY obsoleted" "See RFC 8482"]`},
	})
	c := dialUDP(t, addrOf(s))
	if _, err := c.Write(pack(t, askFor("a.example.", dns.TypeA))); err != nil {
		t.Fatal(err)
	}
	port := c.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Port()
	want := fmt.Sprintf("NOERROR extra[a.example. 0 IN A 127.0.0.1] extra[_udp.a.example. 0 IN SRV 0 0 %d .]", port)
	if got := brief(unpack(t, readUDP(t, c))); got != want {
		t.Errorf("whoami: %s, want %s", got, want)
	}
	if got := brief(overSocket(t, "tcp", addrOf(s), ".", "A", 0)); !strings.Contains(got, "extra[_tcp. 0 IN SRV") {
		t.Errorf("whoami of the root over TCP: %s", got)
	}

	full := startWith(t, configFor(), minimalReplies(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Ns = rrs(t, "", "example. 5 IN NS ns.example.")
		m.Extra = rrs(t, "", "ns.example. 5 IN A 192.0.2.1")
		if r.Question[0].Qtype == dns.TypeA {
			m.Answer = rrs(t, r.Question[0].Name, "@ 5 IN A 192.0.2.2")
		}
		_ = w.WriteMsg(m)
	})))
	askAll(t, full, []asked{
		{"minimal answer", "www.example.", "A", "NOERROR [www.example. 5 IN A 192.0.2.2]"},
		{"minimal keeps referrals", "www.example.", "TXT", "NOERROR ns[example. 5 IN NS ns.example.] extra[ns.example. 5 IN A 192.0.2.1]"},
	})
}

// TestACL checks who may ask for what, and that nothing leads around it.
func TestACL(t *testing.T) {
	t.Parallel()
	loopback, elsewhere := netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")
	s := serveBlock(t, func(b *Block) {
		b.Forwards = behind(t, "ok.example. 9 IN A 192.0.2.1", "secret.example. 9 IN A 192.0.2.2", "x.example. 9 IN A 192.0.2.3")
		b.Rewrites = []RewriteRule{{From: "alias.example", To: "secret.example"}}
		b.ACL = []ACLRule{
			{Zones: []string{"secret.example"}, Policies: []ACLPolicy{{Action: ACLBlock, Nets: []netip.Prefix{loopback}}}},
			{Zones: []string{"drop.example"}, Policies: []ACLPolicy{{Action: ACLDrop}}},
			{Policies: []ACLPolicy{
				{Action: ACLBlock, Nets: []netip.Prefix{elsewhere}},
				{Action: ACLFilter, Types: []uint16{dns.TypeTXT, dns.TypeHINFO}},
				{Action: ACLAllow, Nets: []netip.Prefix{loopback}},
				{Action: ACLBlock},
			}},
		}
	})
	askAll(t, s, []asked{
		{"F7 allowed", "ok.example.", "A", "NOERROR [ok.example. 9 IN A 192.0.2.1]"},
		{"F7 filtered type", "ok.example.", "TXT", "NOERROR"},
		{"F7 blocked zone", "SECRET.example.", "A", "REFUSED"},
		{"F7 A45 around it by rewrite", "alias.example.", "A", "REFUSED"},
	})
	m := overSocket(t, "udp", addrOf(s), "secret.example.", "A", 1232)
	if opt := m.IsEdns0(); opt == nil || len(opt.Option) != 1 || opt.Option[0].(*dns.EDNS0_EDE).InfoCode != dns.ExtendedErrorCodeBlocked {
		t.Errorf("F7 blocked: OPT %v, want the extended error Blocked", opt)
	}
	c := dialUDP(t, addrOf(s))
	_, _ = c.Write(pack(t, askFor("drop.example.", dns.TypeA)))
	_, _ = c.Write(pack(t, askFor("x.example.", dns.TypeA)))
	if got := unpack(t, readUDP(t, c)); got.Question[0].Name != "x.example." {
		t.Errorf("F7 drop: got %s", brief(got))
	}
	l, label := s.metrics.links, "dns://127.0.0.1:0"
	for name, missing := range map[string]func() float64{
		"blocked": func() float64 {
			return 3 - testutil.ToFloat64(l.aclBlocked.WithLabelValues(label, "secret.example.", ""))
		},
		"filtered": func() float64 { return 1 - testutil.ToFloat64(l.aclFiltered.WithLabelValues(label, ".", "")) },
		"dropped": func() float64 {
			return 1 - testutil.ToFloat64(l.aclDropped.WithLabelValues(label, "drop.example.", ""))
		},
		"allowed": func() float64 { return 2 - testutil.ToFloat64(l.aclAllowed.WithLabelValues(label, "")) },
	} {
		until(t, "coredns_acl_"+name+"_requests_total is exact", func() bool { return missing() == 0 })
	}
}

// TestHosts checks CoreDNS's hosts: file and lines, reverse names, falling
// through, and changes of the file.
func TestHosts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hosts")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("192.0.2.1 web.example WWW.example # a comment\n# nothing\n2001:db8::1 web.example\nnonsense\n")
	ttl, reload := uint32(60), time.Nanosecond
	s := serveBlock(t, func(b *Block) {
		b.Hosts = &HostsConfig{
			File: file, Inline: []string{"192.0.2.7 inline.example *.wild.example"}, TTL: &ttl, Reload: &reload,
			Zones: []string{"example"}, Fallthrough: []string{"through.example"},
		}
		b.Forwards = behind(t, "a.through.example. 9 IN A 192.0.2.99", "other. 9 IN A 192.0.2.98",
			"9.2.0.192.in-addr.arpa. 9 IN PTR up.example.")
	})
	askAll(t, s, []asked{
		{"F7 A", "Web.example.", "A", "NOERROR [Web.example. 60 IN A 192.0.2.1]"},
		{"F7 AAAA", "web.example.", "AAAA", "NOERROR [web.example. 60 IN AAAA 2001:db8::1]"},
		{"F7 alias without AAAA", "www.example.", "AAAA", "NOERROR"},
		{"F7 another type", "www.example.", "MX", "NOERROR"},
		{"F7 inline", "inline.example.", "A", "NOERROR [inline.example. 60 IN A 192.0.2.7]"},
		{"F7 wildcard", "x.wild.example.", "A", "NOERROR [x.wild.example. 60 IN A 192.0.2.7]"},
		{"F7 wildcard is for one label", "y.x.wild.example.", "A", "SERVFAIL"},
		{"F7 PTR", "1.2.0.192.in-addr.arpa.", "PTR", "NOERROR [1.2.0.192.in-addr.arpa. 60 IN PTR web.example.] [1.2.0.192.in-addr.arpa. 60 IN PTR www.example.]"},
		{"F7 PTR of others", "9.2.0.192.in-addr.arpa.", "PTR", "NOERROR [9.2.0.192.in-addr.arpa. 9 IN PTR up.example.]"},
		{"F7 missing", "nosuch.example.", "A", "SERVFAIL"},
		{"F7 fallthrough", "a.through.example.", "A", "NOERROR [a.through.example. 9 IN A 192.0.2.99]"},
		{"F7 outside", "other.", "A", "NOERROR [other. 9 IN A 192.0.2.98]"},
	})
	write("192.0.2.200 web.example another.example\n")
	askAll(t, s, []asked{{"F7 changed", "web.example.", "A", "NOERROR [web.example. 60 IN A 192.0.2.200]"}})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	askAll(t, s, []asked{
		{"F7 removed", "web.example.", "A", "SERVFAIL"},
		{"F7 inline stays", "inline.example.", "A", "NOERROR [inline.example. 60 IN A 192.0.2.7]"},
	})
	if n := testutil.ToFloat64(s.metrics.links.hostsEntries); n != 2 {
		t.Errorf("coredns_hosts_entries %v, want 2", n)
	}
}

// TestDNS64 checks the translation by RFC 6147 and RFC 6052 (F5).
func TestDNS64(t *testing.T) {
	t.Parallel()
	records := []string{
		"v4.example. 900 IN A 192.0.2.33", "both.example. 9 IN A 192.0.2.1", "both.example. 9 IN AAAA 2001:db8::1",
		"none.example. 9 IN TXT x", "mapped.example. 9 IN A 192.0.2.4", "mapped.example. 9 IN AAAA ::ffff:192.0.2.4",
		"example. 30 IN SOA ns.example. h.example. 1 2 3 4 20",
	}
	with := func(cfg DNS64Config) *Server {
		return serveBlock(t, func(b *Block) { b.DNS64, b.Forwards = &cfg, behind(t, records...) })
	}
	s := with(DNS64Config{AllowIPv4: true})
	askAll(t, s, []asked{
		{"F5 translated, TTL of the denial", "v4.example.", "AAAA", "NOERROR [v4.example. 20 IN AAAA 64:ff9b::c000:221]"},
		{"F5 has AAAA", "both.example.", "AAAA", "NOERROR [both.example. 9 IN AAAA 2001:db8::1]"},
		{"F5 neither", "none.example.", "AAAA", "NOERROR ns[example. 30 IN SOA ns.example. h.example. 1 2 3 4 20]"},
		{"F5 missing", "nosuch.example.", "AAAA", "NXDOMAIN ns[example. 30 IN SOA ns.example. h.example. 1 2 3 4 20]"},
		{"F5 A as it is", "v4.example.", "A", "NOERROR [v4.example. 900 IN A 192.0.2.33]"},
	})
	if n := testutil.ToFloat64(s.metrics.links.dns64.WithLabelValues("dns://127.0.0.1:0")); n != 1 {
		t.Errorf("coredns_dns64_requests_translated_total %v, want 1", n)
	}
	askAll(t, with(DNS64Config{}), []asked{
		{"F5 not over IPv4", "v4.example.", "AAAA", "NOERROR ns[example. 30 IN SOA ns.example. h.example. 1 2 3 4 20]"},
	})
	askAll(t, with(DNS64Config{AllowIPv4: true, TranslateAll: true}), []asked{
		{"F5 translate_all", "both.example.", "AAAA", "NOERROR [both.example. 9 IN AAAA 64:ff9b::c000:201]"},
	})
	for bits, want := range map[int]string{ // RFC 6052 2.4
		32: "2001:db8:c000:221::", 40: "2001:db8:1c0:2:21::", 48: "2001:db8:122:c000:2:2100::",
		56: "2001:db8:122:3c0:0:221::", 64: "2001:db8:122:344:c0:2:2100::", 96: "2001:db8:122:344::c000:221",
	} {
		prefix := netip.PrefixFrom(netip.MustParseAddr("2001:db8:122:344::"), bits).Masked()
		if got := (translator{prefix: prefix}).embed(netip.MustParseAddr("192.0.2.33")); got != netip.MustParseAddr(want) {
			t.Errorf("F5 %v: %v, want %v", prefix, got, want)
		}
	}
}

// TestLinkErrors checks that a block which can't work says why.
func TestLinkErrors(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*Block){
		"no name to match":              func(b *Block) { b.Rewrites = []RewriteRule{{}} },
		"error parsing regexp":          func(b *Block) { b.Rewrites = []RewriteRule{{Match: MatchRegex, From: "("}} },
		"must have kubernetes in the":   func(b *Block) { b.AutoPath = &AutoPathConfig{} },
		"nobody to transfer to":         func(b *Block) { b.Transfers = []TransferConfig{{}} },
		"must be an IPv6 network":       func(b *Block) { b.DNS64 = &DNS64Config{Prefix: netip.MustParsePrefix("10.0.0.0/8")} },
		"one must be set":               func(b *Block) { b.RateLimit = &RateLimitConfig{} },
		"must be an address and one":    func(b *Block) { b.Hosts = &HostsConfig{Inline: []string{"nonsense"}} },
		"unclosed action":               func(b *Block) { b.Templates = []TemplateConfig{{Answer: []string{"{{ .Name"}}} },
		`zone "a..b": not a domain nam`: func(b *Block) { b.ACL = []ACLRule{{Zones: []string{"a..b"}}} },
		"tls:// needs a certificate":    func(b *Block) { b.Transport = DoT },
	} {
		cfg := configFor()
		edit(&cfg.Blocks[0])
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
