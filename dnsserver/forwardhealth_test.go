package dnsserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// flaky is an upstream that can be silenced.
func flaky(t testing.TB, addr string) (*scripted, *atomic.Bool) {
	silent := new(atomic.Bool)
	return newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg {
		switch {
		case silent.Load():
			return nil
		case r.Question[0].Qtype == dns.TypeNS: // a health check: any reply will do
			return []*dns.Msg{new(dns.Msg).SetRcode(r, dns.RcodeRefused)}
		}
		return []*dns.Msg{good(t, r, "@ 60 IN A "+addr)}
	}), silent
}

// until waits for a condition.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("never came: %s", what)
		case <-tick.C:
		}
	}
}

// forwardOf is the only forward of a server.
func forwardOf(t testing.TB, cfg Config) (*Server, *forward) {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f, err := newForward(cfg.Blocks[0].Forwards[0], cfg.withDefaults(), s.metrics)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.end)
	return s, f
}

// TestForwardHealth checks F1: an upstream that fails its checks is passed
// over, and used again as soon as it answers one, whatever it says.
func TestForwardHealth(t *testing.T) {
	t.Parallel()
	first, silent := flaky(t, "192.0.2.1")
	second, _ := flaky(t, "192.0.2.2")
	cfg, fc := forwardTo(first, second)
	fc.Timeout = 100 * time.Millisecond
	fc.Health = HealthConfig{MaxFails: 2, Interval: 5 * time.Millisecond, NoRecursion: true, Domain: "health.example"}
	_, f := forwardOf(t, cfg)
	up := (*f.upstreams.Load())[0]
	ask := func() string {
		m, err := f.ask(t.Context(), askFor("a.example.", dns.TypeA), false)
		if err != nil {
			return err.Error()
		}
		return answerOf(m)
	}
	if got := ask(); got != "192.0.2.1" {
		t.Fatalf("sequential: %s, want the first", got)
	}
	silent.Store(true)
	if got := ask(); got != "192.0.2.2" {
		t.Errorf("the first is silent: %s, want the second", got)
	}
	until(t, "the first is down", func() bool { return f.isDown(up) })
	if q := first.last.Load(); q.Question[0].Name != "health.example." || q.Question[0].Qtype != dns.TypeNS || q.RecursionDesired {
		t.Errorf("health check asks %v", q)
	}
	start := time.Now()
	if got := ask(); got != "192.0.2.2" || time.Since(start) > fc.Timeout {
		t.Errorf("the first is down: %s after %v", got, time.Since(start))
	}
	silent.Store(false)
	until(t, "the first is up", func() bool { return !f.isDown(up) })
	if got := ask(); got != "192.0.2.1" {
		t.Errorf("the first is up again: %s", got)
	}
	if n := testutil.ToFloat64(up.unhealthy); n < 2 {
		t.Errorf("%v failed checks counted", n)
	}
}

// TestForwardAllDown checks F1: one is tried all the same, or none.
func TestForwardAllDown(t *testing.T) {
	t.Parallel()
	for _, failFast := range []bool{false, true} {
		up := constant(t, "192.0.2.1")
		cfg, fc := forwardTo(up)
		fc.Health = HealthConfig{FailFast: failFast}
		s, f := forwardOf(t, cfg)
		(*f.upstreams.Load())[0].fails.Store(2)
		_, err := f.ask(t.Context(), askFor("a.example.", dns.TypeA), false)
		if (err != nil) != failFast || up.udp.Load() == 0 != failFast {
			t.Errorf("F1 failfast %v: error %v, asked %d times", failFast, err, up.udp.Load())
		}
		if n := testutil.ToFloat64(s.metrics.healthBroken); (n == 1) == failFast {
			t.Errorf("F1 failfast %v: broken counted %v times", failFast, n)
		}
	}
}

// TestForwardAttempts checks max_connect_attempts and that it ends in time
// without it.
func TestForwardAttempts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		limit  int
		timing time.Duration
		asked  int32
	}{
		{"F1 twice each", 0, 200 * time.Millisecond, 4}, {"F1 once", 1, 200 * time.Millisecond, 1}, {"F1 five times", 5, 200 * time.Millisecond, 5},
	} {
		silent := newScripted(t, func(*dns.Msg, bool) []*dns.Msg { return nil })
		also := newScripted(t, func(*dns.Msg, bool) []*dns.Msg { return nil })
		cfg, fc := forwardTo(silent, also)
		fc.MaxAttempts, fc.Timeout = tt.limit, tt.timing
		_, f := forwardOf(t, cfg)
		if _, err := f.ask(t.Context(), askFor("a.example.", dns.TypeA), false); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
		until(t, tt.name, func() bool { return silent.udp.Load()+also.udp.Load() >= tt.asked })
		if n := silent.udp.Load() + also.udp.Load(); n != tt.asked {
			t.Errorf("%s: asked %d times, want %d", tt.name, n, tt.asked)
		}
	}
	t.Run("F1 without a limit, as time allows", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &forward{conf: ForwardConfig{MaxAttempts: -1}}
			tries, start := 0, time.Now()
			for ctx := t.Context(); time.Since(start) < time.Second && f.mayTry(ctx, tries, 1); tries++ {
			}
			if tries != 22 { // two at once, then one every 50 ms
				t.Errorf("%d attempts in a second that all fail at once, want 22", tries)
			}
		})
	})
}

// TestForwardAlternatives checks next and next_on_nodata.
func TestForwardAlternatives(t *testing.T) {
	t.Parallel()
	saying := func(rcode int) *scripted {
		return newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{new(dns.Msg).SetRcode(r, rcode)} })
	}
	for _, tt := range []struct {
		name  string
		rcode int
		set   func(*ForwardConfig)
		other string // what the second forward is for
		want  string
	}{
		{"F1 next NXDOMAIN", dns.RcodeNameError, func(f *ForwardConfig) { f.Next = []int{dns.RcodeNameError} }, ".", "192.0.2.2"},
		{"F1 next, another rcode", dns.RcodeServerFailure, func(f *ForwardConfig) { f.Next = []int{dns.RcodeNameError} }, ".", "SERVFAIL"},
		{"F1 next, nobody else takes the name", dns.RcodeNameError, func(f *ForwardConfig) { f.Next = []int{dns.RcodeNameError} }, "other.", "NXDOMAIN"},
		{"F1 next_on_nodata", dns.RcodeSuccess, func(f *ForwardConfig) { f.NextOnNodata = true }, ".", "192.0.2.2"},
		{"F1 without them", dns.RcodeNameError, func(*ForwardConfig) {}, ".", "NXDOMAIN"},
	} {
		cfg, fc := forwardTo(saying(tt.rcode))
		fc.From = "example."
		tt.set(fc)
		other := ForwardConfig{From: tt.other, To: []string{constant(t, "192.0.2.2").addr.String()}}
		cfg.Blocks[0].Forwards = append(cfg.Blocks[0].Forwards, other)
		s := startWith(t, cfg, nil)
		if got := answerOf(queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestForwardFile checks that a resolv.conf is read again when it changes,
// however it is replaced, and that a bad one changes nothing.
func TestForwardFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "resolv.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("nameserver 192.0.2.1\nnameserver 192.0.2.2\n")
	cfg := configFor()
	cfg.Blocks[0].Forwards = []ForwardConfig{{From: ".", To: []string{file, "192.0.2.9"}}}
	_, f := forwardOf(t, cfg)
	watch := &fileWatch{files: filesOf(f.conf.To)}
	watch.changed()
	upstreams := func() string {
		var list []string
		for _, up := range *f.upstreams.Load() {
			list = append(list, strings.TrimSuffix(up.label, ":53"))
		}
		return strings.Join(list, " ")
	}
	stays := (*f.upstreams.Load())[1]
	for _, step := range []struct {
		name, text, want string
		changed          bool
	}{
		{"F1 nothing", "", "192.0.2.1 192.0.2.2 192.0.2.9", false},
		{"F1 another", "nameserver 192.0.2.2\nnameserver 192.0.2.3\n", "192.0.2.2 192.0.2.3 192.0.2.9", true},
		{"F1 nonsense", "nameserver nowhere\n", "192.0.2.2 192.0.2.3 192.0.2.9", true},
		{"F1 empty", "# nothing\n", "192.0.2.2 192.0.2.3 192.0.2.9", true},
		{"F1 good again", "nameserver 192.0.2.2\n", "192.0.2.2 192.0.2.9", true},
	} {
		if step.text != "" {
			write(step.text)
		}
		changed := watch.changed()
		if changed {
			f.reread(t.Context())
		}
		if changed != step.changed || upstreams() != step.want {
			t.Errorf("%s: changed %v, upstreams %s; want %v, %s", step.name, changed, upstreams(), step.changed, step.want)
		}
	}
	if (*f.upstreams.Load())[0] != stays {
		t.Error("F1: an upstream that stays was forgotten")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if !watch.changed() {
		t.Error("F1: a file that is gone wasn't noticed")
	}
}

// TestForwardFollows checks the same in a running server.
func TestForwardFollows(t *testing.T) {
	t.Parallel()
	one, two := constant(t, "192.0.2.1"), constant(t, "192.0.2.2")
	link := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(link, []byte("nameserver 127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := configFor()
	cfg.Blocks[0].Forwards = []ForwardConfig{{From: ".", To: []string{link, one.addr.String()}, Policy: Sequential, Timeout: 50 * time.Millisecond}}
	_, f := forwardOf(t, cfg)
	f.begin()
	if err := os.WriteFile(link, []byte(fmt.Sprintf("nameserver %s\n", two.addr.Addr())+"# longer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := f.upstreams.Load()
	until(t, "the file is read again", func() bool { return f.upstreams.Load() != before })
}
