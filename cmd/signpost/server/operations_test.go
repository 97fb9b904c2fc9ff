package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"signpost/cmd/signpost/corefile"
	"signpost/dnsserver"
	"signpost/integration/lab"
)

// F2: a forward that leads back here ends the server, and says why.
func TestLoopEndsTheServer(t *testing.T) {
	t.Parallel()
	port, err := lab.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(".:%d {\n bind 127.0.0.1\n loop\n cache\n forward . 127.0.0.1:%d\n}", port, port)
	config, err := corefile.Parse("Corefile", []byte(text), corefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config.Admin = "unix://" + t.TempDir() + "/admin"
	s, err := Start(t.Context(), config, Options{Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = s.Run(ctx, nil, func() (*corefile.Config, error) { return config, nil })
	var loop *dnsserver.LoopError
	if !errors.As(err, &loop) || loop.Zone != "." || !strings.Contains(err.Error(), fmt.Sprintf("127.0.0.1:%d", port)) {
		t.Errorf("Run: %v, want a loop", err)
	}
}

// The figures of reloading and of the health endpoint, by CoreDNS's names.
func TestOperations(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	o := newOperations(registry)
	o.inForce(&corefile.Config{Digest: "one"})
	o.inForce(&corefile.Config{Digest: "two"})
	want := "# HELP coredns_reload_version_info The digest of what the configuration in force says.\n" +
		"# TYPE coredns_reload_version_info gauge\n" +
		`coredns_reload_version_info{hash="sha512",value="two"} 1` + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "coredns_reload_version_info"); err != nil {
		t.Error(err)
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(healthHandler), ReadHeaderTimeout: headerTimeout}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(ln) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if err := o.askHealth(t.Context(), client, ln.Addr().String()); err != nil {
		t.Errorf("a healthy server: %v", err)
	}
	_ = server.Shutdown(context.Background())
	<-done
	if err := o.askHealth(t.Context(), client, ln.Addr().String()); err == nil {
		t.Error("a server that is gone: no error")
	}
	if n := testutil.ToFloat64(o.healthFailed); n != 1 {
		t.Errorf("%v failures counted, want 1", n)
	}
	if n := testutil.CollectAndCount(o.healthTook); n != 1 {
		t.Errorf("%d histograms", n)
	}
}
