package vip_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"signpost/vip"
	"signpost/vip/viptest"
)

// lines is a log without times.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// take returns what was logged since the last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.buf.Reset()
	return l.buf.String()
}

func logged(t *testing.T) (*rig, *lines) {
	t.Helper()
	l := &lines{}
	handler := slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return newRig(t, func(c *vip.Config) { c.Log = slog.New(handler) }), l
}

// TestControllerLog: one line for each change of state, none for a retry.
func TestControllerLog(t *testing.T) {
	t.Parallel()
	expect := func(t *testing.T, l *lines, when string, want ...string) {
		t.Helper()
		got := strings.Split(strings.TrimSpace(l.take()), "\n")
		if len(want) == 0 {
			want = []string{""}
		}
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || !strings.Contains(got[i], want[i]) {
				t.Errorf("log %s: got %q, want %q", when, got, want)
				return
			}
		}
	}
	bubble(t, "a dataplane fails and works again", func(t *testing.T) {
		r, l := logged(t)
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		expect(t, l, "at the start", `msg="dataplane is in place" backend=fake frontends=1`)
		r.backend.set(allFail, false)
		wait(10 * time.Minute)
		expect(t, l, "after many failures", `level=ERROR msg="dataplane fails" backend=fake error="no memory"`)
		r.backend.set(nil, false)
		wait(time.Minute)
		expect(t, l, "after the recovery", `msg="dataplane works again"`)
	})
	bubble(t, "P-25 a frontend fails and works again", func(t *testing.T) {
		r, l := logged(t)
		r.backend.FailWith(failing(t, "10.0.0.1:80"))
		r.put(t, "service a/a ips=10.0.0.1 ports=80")
		wait(time.Minute)
		expect(t, l, "after many tries", "dataplane is in place", `msg="frontend can't be programmed" frontend=10.0.0.1:80/TCP service=a/a error="add 10.0.0.1:80/TCP: no memory"`)
		r.backend.FailWith(nil)
		wait(time.Minute)
		expect(t, l, "after the recovery", `msg="frontend is programmed" frontend=10.0.0.1:80/TCP`)
	})
	bubble(t, "P-25 very many fail", func(t *testing.T) {
		r, l := logged(t)
		r.backend.FailWith(func(op viptest.Operation) error {
			if op.Verb == "add" {
				return errors.New("no sctp")
			}
			return nil
		})
		var world strings.Builder
		for i := range 30 {
			fmt.Fprintf(&world, "service a/s%d ips=10.0.0.%d ports=80\n", i, i+1)
		}
		r.put(t, world.String())
		if n := strings.Count(l.take(), "\n"); n != 22 {
			t.Errorf("log lines: got %d, want 22", n)
		}
	})
	bubble(t, "P-26 a frontend is taken, and taken over", func(t *testing.T) {
		r, l := logged(t)
		r.put(t, "service a/a ips=10.0.0.1 ports=80 external=198.51.100.1")
		l.take()
		r.put(t, "service a/b ips=10.0.0.2 ports=80 external=198.51.100.1")
		wait(time.Minute)
		expect(t, l, "when the second comes", `level=WARN msg="frontend is taken" frontend=198.51.100.1:80/TCP service=a/b owner=a/a`)
		r.remove("a/a")
		wait(time.Minute)
		expect(t, l, "when the first goes", `level=INFO msg="frontend has another owner" frontend=198.51.100.1:80/TCP service=a/b before=a/a`)
	})
	bubble(t, "P-27 a refused address", func(t *testing.T) {
		r, l := logged(t)
		r.put(t, "service a/a ips=10.0.0.1 ports=80 external=127.0.0.1")
		wait(time.Second)
		expect(t, l, "once", `msg="service is programmed in part" service=a/a reason="spec.externalIPs[0] \"127.0.0.1\": a loopback address"`, "dataplane is in place")
		r.put(t, "service a/a ips=10.0.0.1 ports=81 external=127.0.0.1")
		wait(time.Second)
		expect(t, l, "not again")
	})
}
