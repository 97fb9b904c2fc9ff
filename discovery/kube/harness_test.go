package kube

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"

	"signpost/discovery"
	"signpost/integration/apistub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logBuffer is a log that a test reads while others write.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) count(part string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), part)
}

// harness is a source that runs against a server.
type harness struct {
	t      *testing.T
	server *apistub.Server
	source *Source
	store  *discovery.Store
	log    *logBuffer
	stop   func()
}

// newServer returns a server with a small cluster in it.
func newServer(t *testing.T, o apistub.Options) *apistub.Server {
	t.Helper()
	server := apistub.New(o)
	t.Cleanup(server.Close)
	server.Put(
		apistub.Namespace("default"), apistub.Namespace("web"),
		apistub.Service("default", "kubernetes", "10.96.0.1"),
		apistub.Slice("default", "kubernetes", "kubernetes", "192.0.2.10"),
		apistub.Service("web", "front", "10.96.0.20"),
		apistub.Slice("web", "front", "front-a", "10.244.0.2", "10.244.0.3"),
	)
	return server
}

// follow runs a source until the end of the test.
func follow(t *testing.T, server *apistub.Server, cfg Config) *harness {
	t.Helper()
	h := &harness{t: t, server: server, store: discovery.NewStore(), log: &logBuffer{}}
	cfg.API.Endpoint = server.URL()
	cfg.Log = slog.New(slog.NewTextHandler(h.log, nil))
	cfg.backoff = wait.Backoff{Duration: 5 * time.Millisecond, Cap: 50 * time.Millisecond, Steps: 10, Factor: 2}
	var err error
	if h.source, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.source.Run(ctx, h.store) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(5 * time.Second):
			t.Error("Run doesn't end")
		}
	})
	t.Cleanup(h.stop)
	return h
}

// wait blocks until the store satisfies the condition.
func (h *harness) wait(what string, condition func(*discovery.Snapshot) bool) *discovery.Snapshot {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second)
	defer cancel()
	v, err := h.store.Wait(ctx, condition)
	if err != nil {
		h.t.Fatalf("waiting for %s: %v; log:\n%s", what, err, h.log.text.String())
	}
	return v
}

func (h *harness) synced() *discovery.Snapshot {
	h.t.Helper()
	return h.wait("everything", func(v *discovery.Snapshot) bool { return v.Synced })
}

// addresses lists the endpoints of a service in words; "none" if there is no
// such service.
func addresses(v *discovery.Snapshot, namespace, name string) string {
	s, ok := v.Services.Get(discovery.Key{Namespace: namespace, Name: name})
	if !ok {
		return "none"
	}
	var list []string
	for _, e := range s.Endpoints {
		list = append(list, e.Addr.String())
	}
	return strings.Join(list, " ")
}

// waitFor blocks until a service has these endpoints.
func (h *harness) waitFor(namespace, name, want string) *discovery.Snapshot {
	h.t.Helper()
	return h.wait(namespace+"/"+name+" at "+want, func(v *discovery.Snapshot) bool { return addresses(v, namespace, name) == want })
}

// eventually polls something that has no event of its own.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("%s: not after 20 s", what)
		case <-ticker.C:
		}
	}
}
