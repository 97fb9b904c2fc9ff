package dnsserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// good is the reply that a sane upstream sends.
func good(t testing.TB, r *dns.Msg, records ...string) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	m.RecursionAvailable = true
	m.Answer = rrs(t, r.Question[0].Name, records...)
	return m
}

// forwardTo is a configuration that forwards everything.
func forwardTo(ups ...*scripted) (Config, *ForwardConfig) {
	cfg := configFor()
	fc := ForwardConfig{From: ".", Policy: Sequential, Timeout: 250 * time.Millisecond, Health: HealthConfig{MaxFails: -1}}
	for _, up := range ups {
		fc.To = append(fc.To, up.addr.String())
	}
	cfg.Blocks[0].Forwards = []ForwardConfig{fc}
	return cfg, &cfg.Blocks[0].Forwards[0]
}

// TestForward checks what comes of an upstream's replies.
func TestForward(t *testing.T) {
	t.Parallel()
	const record = "@ 60 IN A 192.0.2.1"
	always := func(m func(r *dns.Msg) *dns.Msg) func(*dns.Msg, bool) []*dns.Msg {
		return func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{m(r)} }
	}
	for _, tt := range []struct {
		name     string
		script   func(r *dns.Msg, tcp bool) []*dns.Msg
		rcode    int
		answers  int
		udp, tcp int32 // questions that the upstream gets
		forged   float64
	}{
		{"F1 answer", always(func(r *dns.Msg) *dns.Msg { return good(t, r, record) }), dns.RcodeSuccess, 1, 1, 0, 0},
		{"F1 NXDOMAIN", always(func(r *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(r, dns.RcodeNameError) }), dns.RcodeNameError, 0, 1, 0, 0},
		{"F1 SERVFAIL is passed on", always(func(r *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(r, dns.RcodeServerFailure) }), dns.RcodeServerFailure, 0, 1, 0, 0},
		{"F1 REFUSED without a question", always(func(r *dns.Msg) *dns.Msg {
			m := new(dns.Msg).SetRcode(r, dns.RcodeRefused)
			m.Question = nil
			return m
		}), dns.RcodeRefused, 0, 1, 0, 0},
		{"F1 truncated: again over TCP", func(r *dns.Msg, tcp bool) []*dns.Msg {
			if tcp {
				return []*dns.Msg{good(t, r, many(20)...)}
			}
			m := good(t, r)
			m.Truncated = true
			return []*dns.Msg{m}
		}, dns.RcodeSuccess, 20, 1, 1, 0},
		{"F1 wrong id first", func(r *dns.Msg, _ bool) []*dns.Msg {
			bad := good(t, r, "@ 60 IN A 203.0.113.66")
			bad.Id++
			return []*dns.Msg{bad, good(t, r, record)}
		}, dns.RcodeSuccess, 1, 1, 0, 1},
		{"F1 wrong name first", func(r *dns.Msg, _ bool) []*dns.Msg {
			bad := good(t, r, "@ 60 IN A 203.0.113.66")
			bad.Question = []dns.Question{{Name: "other.example.", Qtype: dns.TypeA, Qclass: dns.ClassINET}}
			return []*dns.Msg{bad, good(t, r, record)}
		}, dns.RcodeSuccess, 1, 1, 0, 1},
		{"F1 wrong type first", func(r *dns.Msg, _ bool) []*dns.Msg {
			bad := good(t, r, "@ 60 IN A 203.0.113.66")
			bad.Question = []dns.Question{{Name: r.Question[0].Name, Qtype: dns.TypeTXT, Qclass: dns.ClassINET}}
			return []*dns.Msg{bad, good(t, r, record)}
		}, dns.RcodeSuccess, 1, 1, 0, 1},
		{"F1 a query instead of a reply first", func(r *dns.Msg, _ bool) []*dns.Msg {
			bad := good(t, r)
			bad.Response = false
			return []*dns.Msg{bad, good(t, r, record)}
		}, dns.RcodeSuccess, 1, 1, 0, 1},
		{"F1 name in another case", always(func(r *dns.Msg) *dns.Msg {
			m := good(t, r, record)
			m.Question = []dns.Question{{Name: strings.ToUpper(r.Question[0].Name), Qtype: dns.TypeA, Qclass: dns.ClassINET}}
			return m
		}), dns.RcodeSuccess, 1, 1, 0, 0},
		{"F1 silent: tried again, then SERVFAIL", func(*dns.Msg, bool) []*dns.Msg { return nil }, dns.RcodeServerFailure, 0, 2, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := newScripted(t, tt.script)
			cfg, _ := forwardTo(up)
			s := startWith(t, cfg, nil)
			m := queryUDP(t, addrOf(s), askFor("www.example.", dns.TypeA, edns(1232, true)))
			if m.Rcode != tt.rcode || len(m.Answer) != tt.answers || m.Truncated {
				t.Errorf("reply %v; want rcode %d, %d answers", m, tt.rcode, tt.answers)
			}
			if tt.answers == 1 && m.Answer[0].(*dns.A).A.String() != "192.0.2.1" {
				t.Errorf("a forged answer was believed: %v", m.Answer)
			}
			if !m.RecursionAvailable {
				t.Error("G2: RA isn't set")
			}
			if up.udp.Load() != tt.udp || up.tcp.Load() != tt.tcp {
				t.Errorf("upstream asked %d times over UDP, %d over TCP; want %d, %d", up.udp.Load(), up.tcp.Load(), tt.udp, tt.tcp)
			}
			if n := testutil.ToFloat64(s.metrics.dropChildren[dropForged]); n != tt.forged {
				t.Errorf("%v forged replies counted, want %v", n, tt.forged)
			}
		})
	}
}

// TestForwardTruncatedForGood checks that what stays truncated is told so.
func TestForwardTruncatedForGood(t *testing.T) {
	t.Parallel()
	up := newScripted(t, func(r *dns.Msg, tcp bool) []*dns.Msg {
		m := good(t, r, "@ 60 IN A 192.0.2.1")
		m.Truncated = true
		if tcp {
			m.Id++ // nothing to be had over TCP
		}
		return []*dns.Msg{m}
	})
	cfg, _ := forwardTo(up)
	s := startWith(t, cfg, nil)
	if m := queryUDP(t, addrOf(s), askFor("www.example.", dns.TypeA)); !m.Truncated || len(m.Answer) != 1 {
		t.Errorf("reply %v, want the truncated one", m)
	}
}

// TestForwardQuestion checks what an upstream gets to see.
func TestForwardQuestion(t *testing.T) {
	t.Parallel()
	up := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{good(t, r)} })
	cfg, _ := forwardTo(up)
	s := startWith(t, cfg, nil)
	m := askFor("wWw.eXample.", dns.TypeAAAA, edns(4096, true))
	m.CheckingDisabled, m.RecursionDesired = true, false
	m.IsEdns0().Option = []dns.EDNS0{
		&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
		&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IP{192, 0, 2, 0}},
	}
	queryUDP(t, addrOf(s), m)
	got := up.last.Load()
	if got.Question[0] != m.Question[0] || !got.CheckingDisabled || got.RecursionDesired {
		t.Errorf("question %v, want name as is, CD, no RD", got)
	}
	opt := got.IsEdns0()
	if opt == nil || !opt.Do() || opt.UDPSize() != defaultUDPSize || len(opt.Option) != 1 || opt.Option[0].Option() != dns.EDNS0SUBNET {
		t.Errorf("OPT %v; want DO, our size, the subnet, no cookie", opt)
	}
	queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))
	if up.last.Load().IsEdns0() != nil {
		t.Error("OPT sent for a client without")
	}
	ids := map[uint16]bool{}
	for range 8 {
		queryUDP(t, addrOf(s), m)
		ids[up.last.Load().Id] = true
	}
	if len(ids) < 4 || ids[m.Id] && len(ids) == 1 {
		t.Errorf("ids %v aren't random", ids)
	}
}

// TestForwardTransports checks which transport the upstream is asked over.
func TestForwardTransports(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		set      func(*ForwardConfig)
		query    func(testing.TB, netip.AddrPort, *dns.Msg) *dns.Msg
		udp, tcp int32
	}{
		{"F1 as the client: UDP", func(*ForwardConfig) {}, queryUDP, 1, 0},
		{"F1 as the client: TCP", func(*ForwardConfig) {}, queryTCP, 0, 1},
		{"F1 force_tcp", func(f *ForwardConfig) { f.ForceTCP = true }, queryUDP, 0, 1},
		{"F1 prefer_udp", func(f *ForwardConfig) { f.PreferUDP = true }, queryTCP, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{good(t, r, "@ 60 IN A 192.0.2.1")} })
			cfg, fc := forwardTo(up)
			tt.set(fc)
			s := startWith(t, cfg, nil)
			if m := tt.query(t, addrOf(s), askFor("a.example.", dns.TypeA)); len(m.Answer) != 1 {
				t.Errorf("reply %v", m)
			}
			if up.udp.Load() != tt.udp || up.tcp.Load() != tt.tcp {
				t.Errorf("asked %d over UDP, %d over TCP; want %d, %d", up.udp.Load(), up.tcp.Load(), tt.udp, tt.tcp)
			}
		})
	}
}

// TestForwardNext checks that other upstreams are tried, and in which order.
func TestForwardNext(t *testing.T) {
	t.Parallel()
	silent := newScripted(t, func(*dns.Msg, bool) []*dns.Msg { return nil })
	failing := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg {
		return []*dns.Msg{new(dns.Msg).SetRcode(r, dns.RcodeServerFailure)}
	})
	fine := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{good(t, r, "@ 60 IN A 192.0.2.1")} })

	t.Run("F1 silent one first", func(t *testing.T) {
		cfg, _ := forwardTo(silent, fine)
		s := startWith(t, cfg, nil)
		if m := queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA)); len(m.Answer) != 1 {
			t.Errorf("reply %v", m)
		}
	})
	t.Run("F1 closed port first", func(t *testing.T) {
		cfg, fc := forwardTo(fine)
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = pc.Close()
		fc.To = append([]string{pc.LocalAddr().String()}, fc.To...)
		s := startWith(t, cfg, nil)
		if m := queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA)); len(m.Answer) != 1 {
			t.Errorf("reply %v", m)
		}
	})
	t.Run("F1 failover", func(t *testing.T) {
		cfg, fc := forwardTo(failing, fine)
		fc.Failover = []int{dns.RcodeServerFailure}
		s := startWith(t, cfg, nil)
		if m := queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA)); len(m.Answer) != 1 {
			t.Errorf("reply %v", m)
		}
	})
	t.Run("F1 failover when all fail", func(t *testing.T) {
		cfg, fc := forwardTo(failing, failing)
		fc.Failover = []int{dns.RcodeServerFailure}
		s := startWith(t, cfg, nil)
		if m := queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA)); m.Rcode != dns.RcodeServerFailure {
			t.Errorf("reply %v", m)
		}
	})
	t.Run("F1 round robin and random use all", func(t *testing.T) {
		for _, policy := range []Policy{RoundRobin, Random} {
			f := &forward{conf: ForwardConfig{Policy: policy}}
			f.upstreams.Store(&[]*upstream{{label: "a"}, {label: "b"}, {label: "c"}})
			first := map[string]int{}
			for range 300 {
				order, _ := f.order()
				first[order[0].label]++
				if len(order) != 3 {
					t.Fatalf("policy %d: order of %d", policy, len(order))
				}
			}
			if len(first) != 3 || policy == RoundRobin && first["a"] != 100 {
				t.Errorf("policy %d: first were %v", policy, first)
			}
		}
	})
}

// TestForwardDomains checks From and Except, and which of several forwards
// takes a query (F2).
func TestForwardDomains(t *testing.T) {
	t.Parallel()
	answering := func(addr string) *scripted {
		return newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{good(t, r, "@ 60 IN A "+addr)} })
	}
	all, corp := answering("192.0.2.1"), answering("192.0.2.2")
	cfg, fc := forwardTo(all)
	fc.Except = []string{"Private.example", "lan"}
	cfg.Blocks[0].Forwards = append(cfg.Blocks[0].Forwards,
		ForwardConfig{From: "Corp.example.", To: []string{corp.addr.String()}, Except: []string{"open.corp.example"}})
	s := startWith(t, cfg, nil)
	for name, want := range map[string]string{
		"example.": "192.0.2.1", "corp.example.": "192.0.2.2", "a.CORP.example.": "192.0.2.2", "notcorp.example.": "192.0.2.1",
		"a.open.corp.example.": "192.0.2.1", "private.example.": "REFUSED", "x.lan.": "REFUSED", "plan.": "192.0.2.1",
	} {
		m := queryUDP(t, addrOf(s), askFor(name, dns.TypeA))
		got := dns.RcodeToString[m.Rcode]
		if len(m.Answer) == 1 {
			got = m.Answer[0].(*dns.A).A.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestForwardConcurrency checks max_concurrent: excess is REFUSED and counted,
// and slow upstreams don't hold up other names on the same connection (W23).
func TestForwardConcurrency(t *testing.T) {
	t.Parallel()
	came, gate := make(chan struct{}, 10), make(chan struct{})
	up := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg {
		came <- struct{}{}
		wait(t, gate)
		return []*dns.Msg{good(t, r, "@ 60 IN A 192.0.2.1")}
	})
	cfg, fc := forwardTo(up)
	fc.MaxConcurrent, fc.Timeout = 1, 4*time.Second
	fc.Except = []string{"refused.example"}
	s := startWith(t, cfg, nil)
	c := dialTCP(t, addrOf(s))
	slow := askFor("slow.example.", dns.TypeA)
	c.send(frame(pack(t, slow)))
	<-came
	c.send(append(frame(pack(t, askFor("second.example.", dns.TypeA))), frame(pack(t, askFor("refused.example.", dns.TypeA)))...))
	for range 2 {
		if m := unpack(t, c.recv()); m.Rcode != dns.RcodeRefused {
			t.Errorf("reply %v, want REFUSED", m)
		}
	}
	close(gate)
	if m := unpack(t, c.recv()); m.Id != slow.Id || len(m.Answer) != 1 {
		t.Errorf("reply %v, want the slow answer", m)
	}
	if n := testutil.ToFloat64(s.metrics.rejects); n != 1 {
		t.Errorf("%v rejects counted, want 1", n)
	}
}

// TestParseUpstreams checks the arguments of a forward.
func TestParseUpstreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	resolv := write("resolv.conf", "# hello\nsearch example\nnameserver 192.0.2.1\nnameserver 2001:db8::1\noptions ndots:5\n")
	empty := write("empty", "search example\n")
	broken := write("broken", "nameserver ns.example\n")
	resolve := func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "ns.example" {
			return nil, errNoAddress
		}
		return []netip.Addr{netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("2001:db8::77")}, nil
	}
	for _, tt := range []struct {
		to      []string
		want    string
		wantErr string
	}{
		{[]string{"192.0.2.1"}, "192.0.2.1:53", ""},
		{[]string{"192.0.2.1:5353", "2001:db8::1", "[2001:db8::1]:54", "[2001:db8::2]"}, "192.0.2.1:5353 [2001:db8::1]:53 [2001:db8::1]:54 [2001:db8::2]:53", ""},
		{[]string{"dns://192.0.2.1:5353", "fe80::1%eth0"}, "192.0.2.1:5353 [fe80::1%eth0]:53", ""},
		{[]string{resolv, "192.0.2.9"}, "192.0.2.1:53 [2001:db8::1]:53 192.0.2.9:53", ""},
		{nil, "", "no upstream"},
		{[]string{empty}, "", "no nameserver"},
		{[]string{broken}, "", `nameserver "ns.example": not an IP address`},
		{[]string{"ns.example", "ns.example.:5353"}, "192.0.2.77:53 [2001:db8::77]:53 192.0.2.77:5353 [2001:db8::77]:5353", ""},
		{[]string{"tls://ns.example", "https://ns.example%dns.example"}, "tls://192.0.2.77:853 tls://[2001:db8::77]:853 " +
			"https://192.0.2.77%dns.example:443 https://[2001:db8::77%dns.example]:443", ""},
		{[]string{"lost.example"}, "", `looking up upstream "lost.example": no address`},
		{[]string{"192.0.2"}, "", `upstream "192.0.2": must be an IP address or a host name`},
		{[]string{"bad_name.example"}, "", "must be an IP address or a host name"},
		{[]string{"a..example"}, "", "must be an IP address or a host name"},
		{[]string{"ns.example:dns"}, "", "must be an IP address or a host name"},
		{[]string{strings.Repeat("a.", 130) + "example"}, "", "must be an IP address or a host name"},
		{[]string{dir + "/missing"}, "", "no such file"},
		{[]string{"tls://192.0.2.1", "tls://[2001:db8::1]:8853"}, "tls://192.0.2.1:853 tls://[2001:db8::1]:8853", ""},
		{
			[]string{"tls://192.0.2.1%dns.example", "tls://192.0.2.2%dns.example:8853", "tls://[2001:db8::1%dns.example]:8853"},
			"tls://192.0.2.1%dns.example:853 tls://192.0.2.2%dns.example:8853 tls://[2001:db8::1%dns.example]:8853", "",
		},
		{[]string{"192.0.2.1", "192.0.2.1:53"}, "192.0.2.1:53", ""},
		{[]string{"https://192.0.2.1", "https://[2001:db8::1]:8443"}, "https://192.0.2.1:443 https://[2001:db8::1]:8443", ""},
		{[]string{"quic://192.0.2.1"}, "", `transport "quic": must be dns, tls or https`},
		{manyUpstreams(16), "", "16 upstreams: at most 15"},
	} {
		got, err := parseUpstreams(t.Context(), tt.to, resolve)
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%v: error %v, want %q", tt.to, err, tt.wantErr)
			}
			continue
		}
		text := make([]string, len(got))
		for i, a := range got {
			text[i] = a.String()
		}
		if err != nil || strings.Join(text, " ") != tt.want {
			t.Errorf("%v: %v, error %v; want %s", tt.to, text, err, tt.want)
		}
	}
}

// manyUpstreams makes different addresses.
func manyUpstreams(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("192.0.2.%d", i+1)
	}
	return list
}
