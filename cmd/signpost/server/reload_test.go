package server

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// rewrite changes the Corefile and asks for a reload.
func (r *running) rewrite(old, replacement string) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "Corefile"))
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		r.t.Fatalf("the Corefile has no %q", old)
	}
	r.write("Corefile", strings.Replace(string(text), old, replacement, 1))
	r.reload <- syscall.SIGUSR1
}

func (r *running) logged(text string) {
	r.t.Helper()
	r.eventually("log "+text, func() bool { return strings.Contains(r.logs.String(), text) })
}

func TestReload(t *testing.T) {
	r := start(t, folder, map[string]string{"web.yaml": web})
	r.ready()
	before, dns := r.current.Load(), r.dns.Addrs()

	r.rewrite("kubernetes cluster.local", "kubernetes other.zone")
	r.logged("msg=reloaded")
	if got := r.query("web.default.svc.other.zone.", "A"); len(got) != 1 {
		t.Errorf("in the new zone: %q", got)
	}
	if got := r.query("web.default.svc.cluster.local.", "A"); len(got) != 0 {
		t.Errorf("in the old zone: %q", got)
	}
	after := r.current.Load()
	if after.source != before.source || r.dns.Addrs()[0] != dns[0] {
		t.Error("the source or the socket was not kept")
	}
}

// L9: on an error the old configuration goes on, and the log says why.
func TestReloadKeepsTheOld(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	tests := []struct{ name, old, replacement, log string }{
		{"unknown directive", "errors", "frobnicate", "Corefile:3: frobnicate: unknown directive"},
		{"source", "manifests DIR/manifests", "manifests DIR/nowhere", "nowhere"},
		{"block", "bind 127.0.0.1", "bind nowhere0", `must be an IP address or an interface`},
		{"mode", "admin", "vip {\n mode kernelspace\n}\nadmin", "needs Windows"},
		{"endpoint", "ready 127.0.0.1:0", "ready " + taken.Addr().String(), "opening the endpoint"},
		{"dns port", ".:0 {", ".:" + port(taken) + " {", "another program has the port"},
		{"admin", "admin.sock", "other.sock", "can't change while the server runs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, folder, map[string]string{"web.yaml": web})
			r.ready()
			before := r.current.Load()
			r.rewrite(strings.ReplaceAll(tt.old, "DIR", r.dir), strings.ReplaceAll(tt.replacement, "DIR", r.dir))
			r.logged("going on with the old configuration")
			if !strings.Contains(r.logs.String(), tt.log) {
				t.Errorf("the log lacks %q: %s", tt.log, r.logs)
			}
			if r.current.Load() != before {
				t.Error("the old configuration is gone")
			}
			if got := r.query("web.default.svc.cluster.local.", "A"); len(got) != 1 {
				t.Errorf("web: %q", got)
			}
		})
	}
}

func port(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// TestReloadSourceAndDataplane changes the parts with a life of their own.
func TestReloadSourceAndDataplane(t *testing.T) {
	text := strings.ReplaceAll(folder, "10.96.0.0/16", "127.93.0.0/16")
	service := strings.ReplaceAll(web, "10.96.0.80", "127.93.0.80")
	r := start(t, text, map[string]string{"web.yaml": service})
	r.ready()
	r.write("more/db.yaml", strings.NewReplacer("web", "db", "127.93.0.80", "127.93.0.81").Replace(service))
	const plane = "vip {\n mode userspace\n node_name n1\n node_port_addresses 192.0.2.0/24\n healthz 127.0.0.1:0\n}\nadmin"

	r.rewrite(r.dir+"/manifests", r.dir+"/more")
	r.eventually("the new folder", func() bool { return len(r.query("db.default.svc.cluster.local.", "A")) == 1 })
	if got := r.query("web.default.svc.cluster.local.", "A"); len(got) != 0 {
		t.Errorf("of the old folder: %q", got)
	}

	r.rewrite("admin", plane)
	r.eventually("a dataplane", func() bool {
		g := r.current.Load()
		return g.plane != nil && g.plane.controller.Status().Applied != nil
	})
	backend := r.current.Load().plane.backend

	r.rewrite("node_name n1", "node_name n2")
	r.eventually("another node", func() bool { return r.current.Load().plane.settings.Name == "n2" })
	if r.current.Load().plane.backend != backend {
		t.Error("the backend was not kept")
	}
	if got := r.query("db.default.svc.cluster.local.", "A"); len(got) != 1 {
		t.Errorf("db: %q", got)
	}

	r.rewrite("mode userspace", "mode off")
	r.eventually("no dataplane", func() bool { return r.current.Load().plane == nil })
	if got := r.query("db.default.svc.cluster.local.", "A"); len(got) != 1 {
		t.Errorf("db without a dataplane: %q", got)
	}
}
