package dnsserver

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// logOf runs a query through middleware and returns what was logged.
func logOf(t *testing.T, m func(*slog.Logger) middleware, name string, h dns.HandlerFunc) string {
	t.Helper()
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	cfg := configFor()
	cfg.Log = logger
	s := startWith(t, cfg, m(logger)(h))
	queryUDP(t, addrOf(s), askFor(name, dns.TypeA, edns(4096, true)))
	if err := s.Shutdown(t.Context()); err != nil { // everything is logged then
		t.Error(err)
	}
	return out.String()
}

// rcodeHandler answers with an rcode.
func rcodeHandler(rcode int) dns.HandlerFunc {
	return func(w dns.ResponseWriter, r *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(r, rcode)) }
}

// TestQueryLog checks the lines of CoreDNS's formats.
func TestQueryLog(t *testing.T) {
	t.Parallel()
	common := `127\.0\.0\.1:\d+ - \d+ "A IN a\.example\. udp 38 true 4096" NXDOMAIN qr,rd 38 0\.\d+s`
	for _, tt := range []struct {
		name string
		cfg  LogConfig
		want string
	}{
		{"common", LogConfig{}, "^" + common + "$"},
		{"combined", LogConfig{Format: "{combined}"}, "^" + common + ` "0"$`},
		{"own", LogConfig{Format: "{local} {proto} {rcode} {unknown} {"}, `^127\.0\.0\.1 udp NXDOMAIN - \{$`},
		{"name matches", LogConfig{Names: []string{"Example"}, Format: "x"}, "^x$"},
		{"name doesn't match", LogConfig{Names: []string{"b.example"}}, "^$"},
		{"class matches", LogConfig{Classes: []string{"success", "denial"}, Format: "x"}, "^x$"},
		{"class doesn't match", LogConfig{Classes: []string{"success", "error"}}, "^$"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			line := logOf(t, func(l *slog.Logger) middleware { return queryLog([]LogConfig{tt.cfg}, l) }, "a.example.", rcodeHandler(dns.RcodeNameError))
			_, msg, _ := strings.Cut(strings.TrimSpace(line), "msg=")
			msg = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(msg, `"`), `"`), `\"`, `"`)
			if !regexp.MustCompile(tt.want).MatchString(msg) {
				t.Errorf("line %s\nwant %s", msg, tt.want)
			}
		})
	}
}

// TestLogClass checks CoreDNS's classes.
func TestLogClass(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		q    query
		want string
	}{
		{query{rcode: dns.RcodeSuccess}, "success"},
		{query{rcode: dns.RcodeSuccess, empty: true}, "denial"},
		{query{rcode: dns.RcodeNameError, empty: true}, "denial"},
		{query{rcode: dns.RcodeServerFailure, empty: true}, "error"},
		{query{rcode: dns.RcodeRefused, empty: true}, "error"},
	} {
		if got := tt.q.class(); got != tt.want {
			t.Errorf("rcode %d, empty %v: %s, want %s", tt.q.rcode, tt.q.empty, got, tt.want)
		}
	}
	if got := logAddr(addrOfText("2001:db8::1")); got != "[2001:db8::1]" {
		t.Errorf("IPv6 address %s, want brackets", got)
	}
}

// TestErrorLog checks that failures are logged with their reason, and nothing
// else.
func TestErrorLog(t *testing.T) {
	t.Parallel()
	silent := newScripted(t, func(*dns.Msg, bool) []*dns.Msg { return nil })
	cfg, fc := forwardTo(silent)
	fc.Timeout = 50 * time.Millisecond
	var out bytes.Buffer
	cfg.Log = slog.New(slog.NewTextHandler(&out, nil))
	cfg.Blocks[0].Errors = true
	s := startWith(t, cfg, nil)
	queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"level=ERROR", "name=a.example.", "type=A", "rcode=SERVFAIL", "plugin=forward", "asking " + silent.addr.String(), "i/o timeout"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
	for rcode, lines := range map[int]int{dns.RcodeNameError: 0, dns.RcodeSuccess: 0, dns.RcodeServerFailure: 1} {
		got := logOf(t, func(log *slog.Logger) middleware { return logErrors(&consolidator{log: log}) }, "a.example.", rcodeHandler(rcode))
		if strings.Count(got, "\n") != lines {
			t.Errorf("rcode %d: logged %q, want %d lines", rcode, got, lines)
		}
	}
}
