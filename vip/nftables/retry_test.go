package nftables

import (
	"errors"
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/viptest"
)

// TestRefusedAgain (F-15): a client that uses its port again is refused again,
// and gets through once there is an endpoint.
func TestRefusedAgain(t *testing.T) {
	viptest.InNamespace(t)
	for _, line := range []string{"addr add 10.244.0.1/32 dev lo", "route add 10.96.0.0/12 dev lo"} {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", "ip "+line).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	listener, err := net.Listen("tcp", "10.244.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	state := func(text string) *vip.State {
		w, err := viptest.ParseWorld("node n1 addrs=10.244.0.1 pods=10.245.0.0/16 services=10.96.0.0/12\nservice d/web ips=10.96.0.80 ports=:80\n" + text)
		if err != nil {
			t.Fatal(err)
		}
		return vip.Planner{}.Plan(w.Snapshot, w.Node)
	}
	dial := func(to string) error {
		reuse := func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
		}
		d := net.Dialer{Timeout: 500 * time.Millisecond, LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 244, 0, 1), Port: 40001}, Control: reuse}
		c, err := d.DialContext(t.Context(), "tcp", to)
		if err == nil {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
		return err
	}
	backend := newBackend(t)
	empty := state("")
	mustApply(t, backend, nil, empty)
	for i := range 3 {
		for _, to := range []string{"10.96.0.80:80", "10.96.0.80:81", "10.96.0.99:80"} {
			start := time.Now()
			err := dial(to)
			if took := time.Since(start); !errors.Is(err, syscall.ECONNREFUSED) || took > 250*time.Millisecond {
				t.Errorf("try %d to %s: %v after %s, want it refused at once", i, to, err, took)
			}
		}
	}
	full := state("slice s ports=:8080\nendpoint 10.244.0.1 node=n1\n")
	mustApply(t, backend, empty, full)
	if err := dial("10.96.0.80:80"); err != nil {
		t.Errorf("with an endpoint: %v", err)
	}
}
