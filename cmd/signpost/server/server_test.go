package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signpost/cmd/signpost/admin"
	"signpost/cmd/signpost/corefile"
	"signpost/discovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a server under test.
type running struct {
	*Server
	t      *testing.T
	dir    string
	reload chan os.Signal
	stop   context.CancelFunc
	ended  chan error
	logs   *logBuffer
}

// start serves a Corefile. In it, DIR is a temporary folder with the sub-folder
// "manifests", which holds the files that are given.
func start(t *testing.T, text string, files map[string]string) *running {
	t.Helper()
	r := &running{t: t, dir: t.TempDir(), reload: make(chan os.Signal, 1), ended: make(chan error, 1), logs: &logBuffer{}}
	for name, content := range files {
		r.write(filepath.Join("manifests", name), content)
	}
	r.write("Corefile", strings.ReplaceAll(text, "DIR", r.dir))
	config, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	log := slog.New(slog.NewTextHandler(r.logs, nil))
	if r.Server, err = Start(ctx, config, Options{Log: log, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.Run(ctx, r.reload, r.load) }()
	t.Cleanup(func() {
		stop()
		if err := <-r.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		r.ended <- nil
	})
	return r
}

func (r *running) load() (*corefile.Config, error) {
	return corefile.Load(filepath.Join(r.dir, "Corefile"), corefile.Options{})
}

func (r *running) write(name, content string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		r.t.Fatal(err)
	}
}

// eventually waits until the server has come to what the condition asks for.
func (r *running) eventually(what string, condition func() bool) {
	r.t.Helper()
	deadline := time.After(20 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline:
			r.t.Fatalf("never came: %s\n%s", what, r.logs)
		}
	}
}

func (r *running) ready() {
	r.t.Helper()
	r.eventually("ready", func() bool { return len(r.Waiting()) == 0 })
}

// get asks an HTTP endpoint by its address in the Corefile.
func (r *running) get(addr, path string) (int, string) {
	r.t.Helper()
	real := r.httpd.servers[addr].listener.Addr().String()
	response, err := http.Get("http://" + real + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return response.StatusCode, string(body)
}

type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

const folder = `.:0 {
    bind 127.0.0.1
    errors
    health 127.0.0.1:0
    ready 127.0.0.1:0
    prometheus 127.0.0.1:0
    manifests DIR/manifests {
        service_cidr 10.96.0.0/16
        state DIR/state.yaml
    }
    kubernetes cluster.local 10.96.0.0/16 {
        pods verified
    }
    admin unix://DIR/admin.sock
}
`

const web = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  clusterIP: 10.96.0.80
  ports: [{name: http, port: 80}]
`

func TestServe(t *testing.T) {
	r := start(t, folder, map[string]string{"web.yaml": web})
	r.ready()
	if got := r.query("web.default.svc.cluster.local.", "A"); len(got) != 1 || got[0] != "10.96.0.80" {
		t.Errorf("web: %q", got)
	}
	for _, path := range []string{"/health", "/ready"} {
		if status, body := r.get("127.0.0.1:0", path); status != http.StatusOK || !strings.Contains(body, "OK") {
			t.Errorf("%s: %d %.200s", path, status, body)
		}
	}
	r.eventually("the query in the metrics", func() bool { // it is counted after its answer has gone
		status, body := r.get("127.0.0.1:0", "/metrics")
		return status == http.StatusOK && strings.Contains(body, "coredns_dns_requests_total{")
	})
	if status, _ := r.get("127.0.0.1:0", "/healthz"); status != http.StatusNotFound {
		t.Errorf("/healthz without a dataplane: %d", status)
	}
	r.write("manifests/db.yaml", strings.ReplaceAll(strings.ReplaceAll(web, "web", "db"), ".80", ".81"))
	r.eventually("the new service", func() bool { return len(r.query("db.default.svc.cluster.local.", "A")) == 1 })
}

func TestAdminSocket(t *testing.T) {
	r := start(t, folder, map[string]string{"web.yaml": web})
	r.ready()
	info, err := os.Stat(filepath.Join(r.dir, "admin.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket mode %v, %v: want 0600", info.Mode(), err)
	}
	client, err := admin.NewClient("unix://" + filepath.Join(r.dir, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	list, err := client.List(t.Context(), admin.Records, admin.Filter{Namespace: "default", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, one := range list.Items {
		text.Write(one)
	}
	for _, want := range []string{`"data":"10.96.0.80"`, `"data":"0 100 80 web.default.svc.cluster.local."`, `"owner":"80.0.96.10.in-addr.arpa."`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("records lack %s: %s", want, text.String())
		}
	}
	status, err := client.Status(t.Context())
	if err != nil || !status.Synced || status.Mode != "off" || len(status.Waiting) != 0 {
		t.Errorf("status %+v, %v", status, err)
	}
}

// TestDataplane serves a Service on loopback: its name is answered only when
// its address works.
func TestDataplane(t *testing.T) {
	text := strings.Replace(strings.ReplaceAll(folder, "10.96.0.0/16", "127.94.0.0/16"), "    admin", `    vip {
        mode userspace
        node_name n1
        node_port_addresses 192.0.2.0/24
        healthz 127.0.0.1:0
    }
    admin`, 1)
	backend := httpEcho(t)
	manifests := strings.NewReplacer("10.96.0.80", "127.94.0.80", "port: 80", "port: 8099, targetPort: 1").Replace(web) + `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [127.0.0.1]}]
ports: [{name: http, port: ` + backend + `}]
`
	r := start(t, text, map[string]string{"web.yaml": manifests})
	r.ready()
	addr := r.query("web.default.svc.cluster.local.", "A")
	if len(addr) != 1 {
		t.Fatalf("web: %q\n%s", addr, r.logs)
	}
	response, err := http.Get("http://" + addr[0] + ":8099/")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	for _, path := range []string{"/healthz", "/livez"} {
		if status, body := r.get("127.0.0.1:0", path); status != http.StatusOK || !strings.Contains(body, `"currentTime"`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	view := r.view()
	if view.Status.Mode != "userspace" || view.Applied == nil || view.Applied.Len() != 1 {
		t.Errorf("view: %+v", view.Status)
	}
}

// httpEcho serves HTTP on a free port of 127.0.0.1 and returns the port.
func httpEcho(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(healthHandler), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// L10: at the signal /ready says no at once, and names are answered on.
func TestLameduck(t *testing.T) {
	text := strings.Replace(folder, "health 127.0.0.1:0", "health 127.0.0.1:0 {\n lameduck 400ms\n}", 1)
	r := start(t, text, map[string]string{"web.yaml": web})
	r.ready()
	r.stop()
	r.eventually("not ready", func() bool {
		status, _ := r.get("127.0.0.1:0", "/ready")
		return status == http.StatusServiceUnavailable
	})
	if got := r.query("web.default.svc.cluster.local.", "A"); len(got) != 1 {
		t.Errorf("while a lame duck: %q", got)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	r.ended <- nil
	if _, err := os.Stat(filepath.Join(r.dir, "admin.sock")); !os.IsNotExist(err) {
		t.Errorf("the admin socket is still there: %v", err)
	}
}

// L2: before the source has delivered, cluster names fail and others don't.
func TestNotReadyBeforeSync(t *testing.T) {
	g := &generation{config: &corefile.Config{}, source: emptySource()}
	zones, err := newZones(mustParse(t, ".:0 {\n bind 127.0.0.1\n kubernetes cluster.local\n}"), g.source.store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g.zones = zones
	if got := g.waiting(); len(got) != 1 || !strings.HasPrefix(got[0], "kubernetes: ") {
		t.Errorf("waiting for %q", got)
	}
	g.source.store.Update(func(tx *discovery.Tx) { tx.MarkSynced() })
	g.zones.start()
	defer g.zones.stop()
	deadline := time.After(10 * time.Second)
	for len(g.waiting()) > 0 {
		select {
		case <-deadline:
			t.Fatal("never ready")
		case <-time.After(time.Millisecond):
		}
	}
}

func mustParse(t *testing.T, text string) *corefile.Config {
	t.Helper()
	config, err := corefile.Parse("Corefile", []byte(text), corefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return config
}
