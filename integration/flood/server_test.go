package flood

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"signpost/integration/lab"
)

// The forward takes as many queries as the program allows in all, so that the
// program's own bound is what is tested.
const corefile = `.:%d {
    bind 127.0.0.1
    manifests manifests {
        service_cidr 10.96.0.0/16
    }
    kubernetes cluster.local in-addr.arpa
    forward . %s {
        max_concurrent 1000000
    }
    cache 30
    prometheus 127.0.0.1:%d
    admin unix://signpost.sock
}
`

// server is signpost as a process of its own.
type server struct {
	dns, metrics string // addresses
	cmd          *exec.Cmd
	log          bytes.Buffer // valid after the end
}

func startServer(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	binary, err := lab.Binary(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	dnsPort, err := lab.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	metricsPort, err := lab.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "Corefile")
	if err := os.WriteFile(conf, fmt.Appendf(nil, corefile, dnsPort, upstream(t), metricsPort), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &server{dns: local(dnsPort), metrics: local(metricsPort)}
	s.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), binary, "serve", "-conf", conf)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(t) })
	return s
}

// stop ends it; that it is still there to be ended is part of the test.
func (s *server) stop(t *testing.T) {
	err := s.cmd.Process.Signal(syscall.SIGTERM)
	if err = errors.Join(err, s.cmd.Wait()); err != nil {
		t.Errorf("ending signpost: %v", err)
	}
	if t.Failed() {
		t.Logf("signpost:\n%s", s.log.String())
	}
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// upstream starts a name server that says of a quarter of all names that they
// don't exist, and nothing of the others.
func upstream(t *testing.T) string {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	soa, err := dns.NewRR("example. 3600 IN SOA ns.example. hostmaster.example. 1 3600 600 86400 3600")
	if err != nil {
		t.Fatal(err)
	}
	started, done := make(chan struct{}), make(chan error, 1)
	srv := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) }}
	srv.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if name := r.Question[0].Name; name == "." || strings.Contains("048c", name[:1]) {
			m := new(dns.Msg).SetRcode(r, dns.RcodeNameError)
			m.Ns = []dns.RR{soa}
			_ = w.WriteMsg(m) // lost is silent
		}
	})
	go func() { done <- srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		if err := errors.Join(srv.Shutdown(), <-done); err != nil {
			t.Errorf("ending the upstream: %v", err)
		}
	})
	return conn.LocalAddr().String()
}

// resident is its memory in MiB: now, and at most.
func (s *server) resident(t *testing.T) (now, most float64) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
		switch name {
		case "VmRSS":
			now = kib / 1024
		case "VmHWM":
			most = kib / 1024
		}
	}
	return now, most
}

// counted returns its metrics, by name with labels.
func (s *server) counted(t *testing.T) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			values[line[:at]], _ = strconv.ParseFloat(line[at+1:], 64)
		}
	}
	return values
}
