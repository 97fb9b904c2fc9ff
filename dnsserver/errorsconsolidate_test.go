package dnsserver

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// TestConsolidate checks that errors which come often are summed up, by the
// first rule that matches.
func TestConsolidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		rule ConsolidateRule
		errs []string // one each second
		want []string
	}{
		{
			"one line for all",
			ConsolidateRule{Every: 10 * time.Second, Pattern: "timeout$", Level: slog.LevelWarn},
			[]string{"a: timeout", "b: timeout"},
			[]string{`level=WARN msg="2 errors like 'timeout$' occurred in last 10s"`},
		},
		{
			"others by themselves",
			ConsolidateRule{Every: 10 * time.Second, Pattern: "timeout$"},
			[]string{"a: timeout", "refused"},
			[]string{"err=refused", `msg="1 errors like`},
		},
		{
			"show_first, and a summary",
			ConsolidateRule{Every: 10 * time.Second, Pattern: "timeout", ShowFirst: true},
			[]string{"a: timeout", "b: timeout"},
			[]string{`err="a: timeout"`, `msg="2 errors like`},
		},
		{
			"show_first, and nothing else",
			ConsolidateRule{Every: 10 * time.Second, Pattern: "timeout", ShowFirst: true},
			[]string{"a: timeout"},
			[]string{`err="a: timeout"`},
		},
		{
			"again after the time",
			ConsolidateRule{Every: 1500 * time.Millisecond, Pattern: "timeout"},
			[]string{"timeout", "timeout", "timeout"},
			[]string{`msg="2 errors like`, `msg="1 errors like`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				log := slog.New(slog.NewTextHandler(&out, nil))
				c, err := newConsolidator([]ConsolidateRule{tt.rule, {Every: time.Hour, Pattern: "timeout"}}, log)
				if err != nil {
					t.Fatal(err)
				}
				i := 0
				h := logErrors(c)(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) { failQuery(w, r, errors.New(tt.errs[i])) }))
				for i = range tt.errs {
					h.ServeDNS(&query{client: &captured{}, internal: false, srv: nil, serving: &serving{}, written: true}, askFor("a.", dns.TypeA))
					time.Sleep(time.Second)
				}
				time.Sleep(20 * time.Second)
				synctest.Wait()
				c.close()
				lines := strings.Split(strings.TrimSpace(out.String()), "\n")
				if len(lines) != len(tt.want) {
					t.Fatalf("logged\n%s\nwant %d lines", out.String(), len(tt.want))
				}
				for i, want := range tt.want {
					if !strings.Contains(lines[i], want) {
						t.Errorf("line %s, want %s", lines[i], want)
					}
				}
			})
		})
	}
	for _, bad := range []ConsolidateRule{{Every: time.Second, Pattern: "("}, {Pattern: "x"}} {
		if _, err := newConsolidator([]ConsolidateRule{bad}, nil); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// TestConsolidateAtEnd checks that the end of a configuration loses no count.
func TestConsolidateAtEnd(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	silent := newScripted(t, func(*dns.Msg, bool) []*dns.Msg { return nil })
	cfg, fc := forwardTo(silent)
	fc.Timeout = 10 * time.Millisecond
	cfg.Log = slog.New(slog.NewTextHandler(&out, nil))
	cfg.Blocks[0].Errors, cfg.Blocks[0].Consolidate = true, []ConsolidateRule{{Every: time.Hour, Pattern: "i/o timeout"}}
	s := startWith(t, cfg, nil)
	for i := range 3 {
		queryUDP(t, addrOf(s), askFor(fmt.Sprintf("n%d.example.", i), dns.TypeA))
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "3 errors like") {
		t.Errorf("logged %s", got)
	}
}

// TestQueryLogs checks that the first log that wants a query writes it.
func TestQueryLogs(t *testing.T) {
	t.Parallel()
	logs := []LogConfig{{Names: []string{"b.example"}, Format: "one"}, {Classes: []string{"success"}, Format: "two"}, {Format: "three"}, {Format: "four"}}
	for rcode, want := range map[int]string{dns.RcodeNameError: "msg=three", dns.RcodeServerFailure: "msg=three"} {
		line := logOf(t, func(l *slog.Logger) middleware { return queryLog(logs, l) }, "a.example.", rcodeHandler(rcode))
		if strings.Count(line, "msg=") != 1 || !strings.Contains(line, want) {
			t.Errorf("logged %s, want %s", line, want)
		}
	}
}
