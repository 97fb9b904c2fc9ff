package kube

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"signpost/discovery"
	"signpost/integration/apistub"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- {name: one, cluster: {server: https://192.0.2.1:6443, insecure-skip-tls-verify: true}}
- {name: two, cluster: {server: https://192.0.2.2:6443, insecure-skip-tls-verify: true}}
users:
- {name: admin, user: {token: secret}}
contexts:
- {name: a, context: {cluster: one, user: admin}}
- {name: b, context: {cluster: two, user: admin}}
current-context: a
`

func TestReaches(t *testing.T) {
	file := write(t, "kubeconfig", kubeconfig)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	tests := []struct {
		name    string
		api     API
		host    string
		problem string // part of the error
	}{
		{"endpoint", API{Endpoint: "http://192.0.2.9:8080"}, "http://192.0.2.9:8080", ""},
		{"kubeconfig, current context", API{Kubeconfig: file}, "https://192.0.2.1:6443", ""},
		{"kubeconfig, a context", API{Kubeconfig: file, Context: "b"}, "https://192.0.2.2:6443", ""},
		{"kubeconfig, another server", API{Kubeconfig: file, Endpoint: "https://192.0.2.3"}, "https://192.0.2.3", ""},
		{"limits", API{Endpoint: "http://192.0.2.9", QPS: 5, Burst: 9, MaxInFlight: 2}, "http://192.0.2.9", ""},
		{"no such context", API{Kubeconfig: file, Context: "c"}, "", `context "c" does not exist`},
		{"no such kubeconfig", API{Kubeconfig: "/nowhere"}, "", `reading kubeconfig "/nowhere": stat /nowhere: no such file`},
		{"no URL", API{Endpoint: "192.0.2.9:6443"}, "", `endpoint "192.0.2.9:6443": must be a URL, such as https://192.0.2.10:6443`},
		{"no scheme that is one", API{Endpoint: "ftp://x"}, "", `endpoint "ftp://x": must be a URL`},
		{"no certificate", API{Endpoint: "https://x", CertFile: "/nowhere", KeyFile: "/nowhere", CAFile: "/nowhere"}, "", "/nowhere: no such file"},
		{"no pod", API{}, "", `finding the API server: this is no pod of a cluster: name the server with "endpoint URL"`},
	}
	for _, test := range tests {
		source, err := New(Config{API: test.api})
		switch {
		case test.problem != "":
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s: error %v, want %q", test.name, err, test.problem)
			}
		case err != nil:
			t.Errorf("%s: %v", test.name, err)
		case source.Host() != test.host:
			t.Errorf("%s: host %q, want %q", test.name, source.Host(), test.host)
		}
	}
}

// A server with a certificate and tokens, found by a kubeconfig, over HTTP/2.
func TestTLSAndToken(t *testing.T) {
	stub := newServer(t, apistub.Options{})
	var mu sync.Mutex
	seen := map[string]bool{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Proto+" "+r.Header.Get("Authorization")] = true
		mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer secret" {
			apistub.Fail(w, http.StatusUnauthorized, "Unauthorized", "who are you")
			return
		}
		stub.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	roots := write(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate(t, server).Raw})))
	text := strings.ReplaceAll(strings.ReplaceAll(kubeconfig, "insecure-skip-tls-verify: true", "certificate-authority: "+roots), "https://192.0.2.1:6443", server.URL)
	source, err := New(Config{API: API{Kubeconfig: write(t, "kubeconfig", text)}})
	if err != nil {
		t.Fatal(err)
	}
	store := discovery.NewStore()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = source.Run(ctx, store) }()
	if _, err := store.Wait(ctx, func(v *discovery.Snapshot) bool { return v.Synced }); err != nil {
		t.Error(err)
	}
	cancel()
	<-ended
	stub.CloseWatches()
	if !seen["HTTP/2.0 Bearer secret"] || len(seen) != 1 {
		t.Errorf("requests by %v", seen)
	}
}

func certificate(t *testing.T, server *httptest.Server) *x509.Certificate {
	t.Helper()
	if server.Certificate() == nil {
		t.Fatal("no certificate")
	}
	return server.Certificate()
}

// apiserver_max_inflight counts a request until its answer begins: watches,
// which last, don't use it up.
func TestInFlight(t *testing.T) {
	h := follow(t, newServer(t, apistub.Options{}), Config{API: API{MaxInFlight: 1, QPS: 1000, Burst: 1000}, Nodes: true, Pods: true})
	h.synced()
	h.server.Put(apistub.Service("web", "new", "10.96.0.30"))
	h.waitFor("web", "new", "")

	entered, release := make(chan struct{}), make(chan struct{})
	l := &limited{make(chan struct{}, 1), roundTripper(func(*http.Request) (*http.Response, error) {
		entered <- struct{}{}
		<-release
		return nil, http.ErrServerClosed
	})}
	var group sync.WaitGroup
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x", nil)
	if err != nil {
		t.Fatal(err)
	}
	group.Go(func() { _, _ = l.RoundTrip(request) })
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.RoundTrip(request.WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("a second request: %v", err)
	}
	close(release)
	group.Wait()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
