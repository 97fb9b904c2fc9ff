package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestNewErrors checks that everything wrong is said at once.
func TestNewErrors(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		MaxUDPSize: 100, MaxQueries: -1,
		Blocks: []Block{
			{Zones: []string{"a..b"}, Listen: []string{"localhost:53", ":x"}},
			{},
			{Zones: []string{"example."}, Listen: []string{":53"}, MaxUDPSize: 9000},
			{Zones: []string{"EXAMPLE"}, Listen: []string{":53"}},
		},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"udp size 100: must be between 512 and 4096", "max queries -1: must be at least 1",
		`block "a..b": zone "a..b": not a domain name`, `listening address "localhost:53": want an IP address and a port`,
		`listening address ":x": bad port`, `block "": no zone`, `block "": no listening address`,
		`block "example.": udp size 9000`, `block "EXAMPLE": zone "EXAMPLE" on ":53": already served by another block`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error doesn't say %q:\n%v", want, err)
		}
	}
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "no server block") {
		t.Errorf("without blocks: %v", err)
	}
	cfg := configFor()
	cfg.Blocks[0].Forwards = []ForwardConfig{{From: ".", To: []string{"192.0.2"}}, {From: "a..b", To: []string{"192.0.2.1"}}, {From: ".", To: []string{"192.0.2.1"}, Policy: 9}}
	_, err = New(cfg)
	for _, want := range []string{`block ".": forward ".": upstream "192.0.2"`, `forward "a..b": zone "a..b"`, `policy 9: unknown`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error doesn't say %q:\n%v", want, err)
		}
	}
}

// TestMatch checks that the most specific zone wins.
func TestMatch(t *testing.T) {
	t.Parallel()
	sv := &serving{routes: map[string]*route{}}
	for _, zone := range []string{"example.", "sub.example.", "a.b.sub.example.", `do\.t.example.`} {
		sv.routes[zone] = &route{zone: zone}
	}
	for name, want := range map[string]string{
		"example.": "example.", "EXAMPLE.": "example.", "x.example.": "example.", "sub.example.": "sub.example.",
		"b.Sub.Example.": "sub.example.", "a.b.sub.example.": "a.b.sub.example.", "x.a.b.sub.example.": "a.b.sub.example.",
		"notexample.": "", ".": "", "com.": "", `x.do\.t.example.`: `do\.t.example.`, `x\.sub.example.`: "example.",
	} {
		got := ""
		if r := sv.match(name); r != nil {
			got = r.zone
		}
		if got != want {
			t.Errorf("%s: zone %q, want %q", name, got, want)
		}
	}
	sv.routes["."] = &route{zone: "."}
	if r := sv.match("com."); r == nil || r.zone != "." {
		t.Errorf("the root zone doesn't take the rest: %v", r)
	}
}

// TestBlocks checks that blocks which share an address share it by zone, and
// what is outside of all is REFUSED (T12), as is what no handler takes.
func TestBlocks(t *testing.T) {
	t.Parallel()
	one := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{good(t, r, "@ 60 IN A 192.0.2.1")} })
	two := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{good(t, r, "@ 60 IN A 192.0.2.2")} })
	s := startWith(t, Config{Blocks: []Block{
		{Zones: []string{"example"}, Listen: []string{"127.0.0.1:0"}, Forwards: []ForwardConfig{{From: ".", To: []string{one.addr.String()}}}},
		{Zones: []string{"sub.example.", "other."}, Listen: []string{"127.0.0.1:0"}, Forwards: []ForwardConfig{{From: ".", To: []string{two.addr.String()}}}},
		{Zones: []string{"none."}, Listen: []string{"127.0.0.1:0"}},
	}}, nil)
	if n := len(s.Addrs()); n != 1 {
		t.Fatalf("%d addresses, want one", n)
	}
	for _, tt := range []struct {
		name, addr string
		rcode      int
		ra         bool
	}{
		{"www.example.", "192.0.2.1", dns.RcodeSuccess, true},
		{"www.sub.example.", "192.0.2.2", dns.RcodeSuccess, true},
		{"OTHER.", "192.0.2.2", dns.RcodeSuccess, true},
		{"www.none.", "", dns.RcodeRefused, false},
		{"elsewhere.", "", dns.RcodeRefused, false},
		{".", "", dns.RcodeRefused, false},
	} {
		for over, query := range map[string]func(testing.TB, netip.AddrPort, *dns.Msg) *dns.Msg{"udp": queryUDP, "tcp": queryTCP} {
			m := query(t, addrOf(s), askFor(tt.name, dns.TypeA))
			addr := ""
			if len(m.Answer) > 0 {
				addr = m.Answer[0].(*dns.A).A.String()
			}
			if m.Rcode != tt.rcode || addr != tt.addr || m.RecursionAvailable != tt.ra || m.Authoritative {
				t.Errorf("T12, G2: %s over %s: %v; want rcode %d, address %q, RA %v", tt.name, over, m, tt.rcode, tt.addr, tt.ra)
			}
		}
	}
}

// TestAddressFamilies checks several addresses, both families and a wildcard
// beside a special address.
func TestAddressFamilies(t *testing.T) {
	t.Parallel()
	s := startWith(t, configFor("127.0.0.1:0", "[::1]:0", "127.0.0.3:0"), static(t, "@ 5 IN A 192.0.2.1"))
	if n := len(s.Addrs()); n != 3 {
		t.Fatalf("%d addresses, want three", n)
	}
	for _, addr := range s.Addrs() {
		if m := queryUDP(t, addr, askFor("a.", dns.TypeA)); len(m.Answer) != 1 {
			t.Errorf("%s: %v", addr, m)
		}
		if m := queryTCP(t, addr, askFor("a.", dns.TypeA)); len(m.Answer) != 1 {
			t.Errorf("%s: %v", addr, m)
		}
	}
}

// TestPortTaken checks that a second server on the port is told so and leaves
// nothing behind.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	first := startWith(t, configFor(), static(t, "@ 5 IN A 192.0.2.1"))
	taken := addrOf(first).String()
	second, err := New(configFor("127.0.0.4:0", taken))
	if err != nil {
		t.Fatal(err)
	}
	err = second.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("listening on %q", taken)) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("error %v, want the address and why", err)
	}
	if n := len(second.Addrs()); n != 0 {
		t.Errorf("%d addresses open", n)
	}
}

// TestPanic checks L11.
func TestPanic(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	cfg := configFor()
	cfg.Log = slog.New(slog.NewTextHandler(&logged, nil))
	answer := static(t, "@ 5 IN A 192.0.2.1")
	s := startWith(t, cfg, dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if r.Question[0].Name == "bad." {
			panic("a bug")
		}
		answer.ServeDNS(w, r)
	}))
	for i, query := range []func(testing.TB, netip.AddrPort, *dns.Msg) *dns.Msg{queryUDP, queryTCP} {
		m := query(t, addrOf(s), askFor("bad.", dns.TypeA, edns(1232, false)))
		if m.Rcode != dns.RcodeServerFailure || m.IsEdns0() == nil || m.Authoritative {
			t.Errorf("L11: reply %v, want SERVFAIL with OPT", m)
		}
		if n := testutil.ToFloat64(s.metrics.panics); n != float64(i+1) {
			t.Errorf("L11: %v panics counted, want %d", n, i+1)
		}
		if m := query(t, addrOf(s), askFor("good.", dns.TypeA)); len(m.Answer) != 1 {
			t.Errorf("L11: reply afterwards %v", m)
		}
	}
	if !strings.Contains(logged.String(), "a bug") || !strings.Contains(logged.String(), "server_test.go") {
		t.Errorf("log has no cause and stack: %s", logged.String())
	}
}

// TestUnpackableReply checks that a handler's invalid record costs a SERVFAIL.
func TestUnpackableReply(t *testing.T) {
	t.Parallel()
	s := startWith(t, configFor(), dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{&dns.CNAME{Hdr: dns.RR_Header{Name: "a..b.", Rrtype: dns.TypeCNAME}, Target: "x"}}
		_ = w.WriteMsg(m)
		_ = w.WriteMsg(m) // one query, one reply
	}))
	if m := queryUDP(t, addrOf(s), askFor("a.", dns.TypeA)); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("reply %v, want SERVFAIL", m)
	}
}

// TestLifecycle checks that methods out of order are refused.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	s, err := New(configFor())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context(), configFor()); err == nil {
		t.Error("reload before start: no error")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("second start: no error")
	}
	for range 2 {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("start after shutdown: no error")
	}
}

// TestMetricsRegistered checks that a registerer's refusal is an error.
func TestMetricsRegistered(t *testing.T) {
	t.Parallel()
	cfg := configFor()
	cfg.Registerer = prometheus.NewRegistry()
	if _, err := New(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg); err == nil {
		t.Error("registered twice: no error")
	}
}

// TestShutdownUnderLoad checks L10: every query that was sent before the
// shutdown is answered, over UDP and TCP, the slow ones too.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	s, err := New(configFor())
	if err != nil {
		t.Fatal(err)
	}
	s.plan["127.0.0.1:0"].routes["."].handler = g
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	to := addrOf(s)
	const clients, each = 8, 100
	var sent, done sync.WaitGroup
	var lost atomic.Int32
	for i := range clients {
		sent.Add(2)
		done.Go(func() { lost.Add(loadUDP(t, to, fmt.Sprintf("u%d", i), each, sent.Done)) })
		done.Go(func() { lost.Add(loadTCP(t, to, fmt.Sprintf("t%d", i), each, sent.Done)) })
	}
	sent.Wait()
	for range 2 * clients { // each sends one slow query, last
		<-g.came
	}
	go func() {
		<-s.listeners["127.0.0.1:0"].stopping // still in flight when the shutdown begins
		close(g.gate)
	}()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	done.Wait()
	if n := lost.Load(); n != 0 {
		t.Errorf("L10: %d queries lost", n)
	}
}

// loadUDP sends queries, the last a slow one, and returns how many replies are
// missing.
func loadUDP(t *testing.T, to netip.AddrPort, name string, n int, sent func()) int32 {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Error(err)
	}
	defer c.Close()
	for i := range n {
		if i == n-1 {
			name = "slow" + name
		}
		_, _ = c.Write(pack(t, askFor(name+".example.", dns.TypeA)))
	}
	sent()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	for i := range n {
		if _, err := c.Read(make([]byte, 512)); err != nil {
			return int32(n - i)
		}
	}
	return 0
}

// loadTCP is loadUDP over one connection; it expects a proper end after the
// last reply.
func loadTCP(t *testing.T, to netip.AddrPort, name string, n int, sent func()) int32 {
	c := dialTCP(t, to)
	for i := range n {
		if i == n-1 {
			name = "slow" + name
		}
		c.send(frame(pack(t, askFor(name+".example.", dns.TypeA))))
	}
	sent()
	for range n {
		c.recv()
	}
	c.wantEOF()
	return 0
}

// TestShutdownDeadline checks that a shutdown doesn't wait for ever.
func TestShutdownDeadline(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 2)
	up := newScripted(t, func(*dns.Msg, bool) []*dns.Msg {
		came <- struct{}{}
		return nil
	})
	cfg, fc := forwardTo(up)
	fc.Timeout = time.Minute
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	u, c := dialUDP(t, addrOf(s)), dialTCP(t, addrOf(s))
	_, _ = u.Write(pack(t, askFor("a.example.", dns.TypeA)))
	c.send(frame(pack(t, askFor("a.example.", dns.TypeA))))
	<-came
	<-came // both are waiting for the upstream
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v, want deadline exceeded", err)
	}
	if took := time.Since(start); took > forwardTimeout-time.Second/2 { // when the queries end by themselves
		t.Errorf("shutdown took %v", took)
	}
	if m := unpack(t, readUDP(t, u)); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("cancelled query got %v, want SERVFAIL", m)
	}
}
