package healthcheck

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// statuses is a controller whose status a test sets.
type statuses struct{ *vip.Cell[vip.Status] }

func (s statuses) Status() *vip.Status { return s.Current() }

// rig is a server at work. It remembers its listeners and every opening and
// closing, in order.
type rig struct {
	t       *testing.T
	status  statuses
	nodes   *vip.Cell[vip.Node]
	healthy atomic.Bool
	server  *Server

	mu        sync.Mutex
	listeners map[string]net.Listener
	events    []string
	log       bytes.Buffer
}

// Write takes a log line.
func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *rig) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

type watched struct {
	net.Listener
	closed func()
}

func (w watched) Close() error {
	w.closed()
	return w.Listener.Close()
}

func (r *rig) listen(_ context.Context, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r.listeners[address] = l
	r.events = append(r.events, "open "+address)
	var once sync.Once
	return watched{l, func() {
		once.Do(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, "close "+address)
		})
	}}, nil
}

func start(t *testing.T, everywhere bool) *rig {
	t.Helper()
	r := &rig{
		t: t, status: statuses{vip.NewCell(&vip.Status{})}, nodes: vip.NewCell[vip.Node](nil),
		listeners: map[string]net.Listener{},
	}
	r.healthy.Store(true)
	r.server = New(Config{
		Status: r.status, Nodes: r.nodes, Everywhere: everywhere, Healthy: r.healthy.Load, Listen: r.listen,
		Log: slog.New(slog.NewTextHandler(r, nil)), Retry: 5 * time.Millisecond,
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if open, failed := r.server.Ports(); open+failed != 0 {
			t.Errorf("after the end: %d ports open, %d failed", open, failed)
		}
	})
	return r
}

const node = "node n1 addrs=127.0.0.1,::1 nodeports=127.0.0.1,::1\n"

func plan(t *testing.T, text string) (*vip.State, *discovery.Snapshot) {
	t.Helper()
	w, err := viptest.ParseWorld(text)
	if err != nil {
		t.Fatal(err)
	}
	return vip.Planner{}.Plan(w.Snapshot, w.Node), w.Snapshot
}

// set plans and applies a world.
func (r *rig) set(text string) {
	r.t.Helper()
	state, snapshot := plan(r.t, text)
	r.nodes.Set(state.Node())
	r.status.Set(&vip.Status{Snapshot: snapshot, Desired: state, Applied: state})
}

func service(name string, port, local int) string {
	text := fmt.Sprintf("service shop/%s type=LoadBalancer ips=10.96.0.1%d ports=:80 lb=203.0.113.1%d etp=Local hc=%d\nslice %s ports=:80\n",
		name, len(name), len(name), port, name)
	for i := range local {
		text += fmt.Sprintf("endpoint 10.1.0.%d node=n1\n", i+1)
	}
	return text + "endpoint 10.1.0.100 node=n2\n"
}

// get asks and returns status, weight and body in one line, or the error.
func get(host string, port int, path string) string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 3 * time.Second}
	response, err := client.Get("http://" + address(host, uint16(port)) + path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d weight=%s %s", response.StatusCode, response.Header.Get("X-Load-Balancing-Endpoint-Weight"), strings.TrimSpace(string(text)))
}

// expect waits for the answer that contains the text.
func (r *rig) expect(when, host string, port int, want string) {
	r.t.Helper()
	got := ""
	if !eventually(func() bool { got = get(host, port, "/"); return strings.Contains(got, want) }) {
		r.t.Fatalf("%s: got %s, want %s\n%s", when, got, want, r.logged())
	}
}

func eventually(is func() bool) bool {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(10 * time.Second); ; {
		if is() {
			return true
		}
		select {
		case <-deadline:
			return false
		case <-ticker.C:
		}
	}
}

// free returns a port that nobody has.
func free(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

const (
	// up is a good answer's beginning. The number alone could be a part of the
	// port, which an error names.
	up      = "200 weight="
	refused = "connection refused"
)

func TestAnswers(t *testing.T) {
	port := free(t)
	r := start(t, false)
	r.set(node + service("web", port, 2))
	r.expect("F-09 two local endpoints", "127.0.0.1", port,
		`200 weight=2 {"service":{"namespace":"shop","name":"web"},"localEndpoints":2,"serviceProxyHealthy":true}`)
	r.expect("F-24 in the other family", "::1", port, `200 weight=2`)
	if got := get("127.0.0.1", port, "/any/path?at=all"); !strings.HasPrefix(got, "200") {
		t.Errorf("F-09 any path: %s", got)
	}
	r.healthy.Store(false)
	r.expect("F-09 the dataplane does not keep up", "127.0.0.1", port, `503 weight=2 {"service":{"namespace":"shop","name":"web"},"localEndpoints":2,"serviceProxyHealthy":false}`)
	r.healthy.Store(true)
	r.set(node + service("web", port, 0))
	r.expect("B32 the last local endpoint has gone", "127.0.0.1", port, `503 weight=0 {"service":{"namespace":"shop","name":"web"},"localEndpoints":0,"serviceProxyHealthy":true}`)
	r.set(node + strings.Replace(service("web", port, 1), "node=n1", "node=n1 terminating", 1))
	r.expect("F-13 terminating does not count", "127.0.0.1", port, `503 weight=0`)
	r.set(node)
	r.expect("the service has gone", "127.0.0.1", port, refused)
}

// TestRulesFirst: an endpoint counts once its rules are in.
func TestRulesFirst(t *testing.T) {
	port := free(t)
	r := start(t, true)
	before, _ := plan(t, node+service("web", port, 1))
	after, snapshot := plan(t, node+service("web", port, 3))
	r.nodes.Set(after.Node())
	for _, tt := range []struct {
		name    string
		applied *vip.State
		want    string
	}{
		{"nothing is in", nil, "503 weight=0"},
		{"one is in", before, "200 weight=1"},
		{"all are in", after, "200 weight=3"},
	} {
		r.status.Set(&vip.Status{Snapshot: snapshot, Desired: after, Applied: tt.applied})
		r.expect(tt.name, "127.0.0.1", port, tt.want)
	}
}

// TestFaults are X21: a busy port, and a listener that ends by itself.
func TestFaults(t *testing.T) {
	busy, other := free(t), free(t)
	squatter, err := net.Listen("tcp", address("127.0.0.1", uint16(busy)))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, false)
	world := strings.ReplaceAll(node, ",::1", "") + service("web", busy, 1) + service("other", other, 1)
	r.set(world)
	r.expect("X21 others are open", "127.0.0.1", other, up)
	if !eventually(func() bool { _, failed := r.server.Ports(); return failed == 1 }) {
		t.Fatal("the busy port does not count as failed")
	}
	if err := squatter.Close(); err != nil {
		t.Fatal(err)
	}
	r.expect("X21 the port is free again", "127.0.0.1", busy, up)
	log := r.logged()
	if n := strings.Count(log, "event=FailedToStartServiceHealthcheck service=shop/web"); n != 1 {
		t.Errorf("the failure is logged %d times, want once:\n%s", n, log)
	}
	if !strings.Contains(log, `msg="health-check node port is open" service=shop/web`) {
		t.Errorf("the recovery is not logged:\n%s", log)
	}

	r.mu.Lock()
	killed := r.listeners[address("127.0.0.1", uint16(busy))]
	r.mu.Unlock()
	_ = killed.Close()
	if !eventually(func() bool { return strings.Contains(r.logged(), "ended; opening it again") }) {
		t.Fatalf("X21 the end is not noticed:\n%s", r.logged())
	}
	r.expect("X21 a listener was killed", "127.0.0.1", busy, up)
}

// TestMoves: a port between services, and one that makes room for another.
func TestMoves(t *testing.T) {
	first, second := free(t), free(t)
	r := start(t, false)
	single := strings.ReplaceAll(node, ",::1", "")
	r.set(single + service("web", first, 1))
	r.expect("before", "127.0.0.1", first, `"name":"web"`)
	r.set(single + service("other", first, 2))
	r.expect("X21 moved to another service", "127.0.0.1", first, `200 weight=2 {"service":{"namespace":"shop","name":"other"}`)
	r.set(single + service("other", second, 2))
	r.expect("another port", "127.0.0.1", second, up)
	r.expect("the old port", "127.0.0.1", first, refused)
	at := func(port int) string { return address("127.0.0.1", uint16(port)) }
	want := fmt.Sprintf("[open %s close %s open %s]", at(first), at(first), at(second))
	r.mu.Lock()
	got := fmt.Sprint(r.events)
	r.mu.Unlock()
	if got != want {
		t.Errorf("order: got %s, want %s", got, want)
	}
}

// TestContest is P-26: the oldest has the port, and the next takes over.
func TestContest(t *testing.T) {
	port := free(t)
	r := start(t, false)
	old := strings.Replace(service("web", port, 1), "ips=", "created=2026-01-01T00:00:00Z ips=", 1)
	young := strings.Replace(service("other", port, 2), "ips=", "created=2026-02-01T00:00:00Z ips=", 1)
	r.set(node + young + old)
	r.expect("both", "127.0.0.1", port, `"name":"web"`)
	if !strings.Contains(r.logged(), "health-check node port is taken") {
		t.Errorf("the conflict is not logged: %s", r.logged())
	}
	r.set(node + young)
	r.expect("the winner has gone", "127.0.0.1", port, `"name":"other"`)
}

// TestAddresses is F-25: the addresses come and go.
func TestAddresses(t *testing.T) {
	port := free(t)
	r := start(t, false)
	r.set(strings.ReplaceAll(node, ",::1", "") + service("web", port, 1))
	r.expect("one address", "127.0.0.1", port, up)
	r.expect("not the other", "::1", port, refused)
	r.set(node + service("web", port, 1))
	r.expect("both", "::1", port, up)
	r.set(strings.ReplaceAll(node, "127.0.0.1,", "") + service("web", port, 1))
	r.expect("the first is gone", "127.0.0.1", port, refused)
	r.expect("the second stays", "::1", port, up)
}
