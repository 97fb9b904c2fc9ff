package conformance

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onePort has a client use one port of its own for several connections at once,
// as kernels do when they give out ports. Where these lead to one endpoint, it
// would see them as one: so all but one have to come from another port.
func (r *runner) onePort(t *testing.T) {
	d := r.fresh(t)
	want := mustState(t, feature{world: `
		service a/web type=NodePort ips=10.96.0.7 ports=80/P->30080
		slice s ports=8080/P
		endpoint 172.16.0.1 node=n1
		service a/api ips=10.96.0.8 ports=80/P
		slice s ports=8080/P
		endpoint 172.16.0.1 node=n1`})
	d.apply(t, nil, want)
	for i, tt := range []struct {
		name, host, from string
		to               []string
	}{
		{"a pod, to two services", "p3", "172.16.0.3", []string{"10.96.0.7:80", "10.96.0.8:80"}},
		{"IPv6", "p3", "[fd00:16::3]", []string{"[fd00:96::7]:80", "[fd00:96::8]:80"}},
		{"a pod, to an endpoint and its service", "p3", "172.16.0.3", []string{"172.16.0.1:8080", "10.96.0.7:80"}},
		{"masqueraded", outside, "198.18.0.1", []string{"10.96.0.7:80", "192.168.6.1:30080", "10.96.0.8:80"}},
		{"the node", node, "192.168.6.1", []string{"10.96.0.7:80", "10.96.0.8:80"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var open []connection
			for _, to := range tt.to {
				open = append(open, r.openFrom(t, tt.host, fmt.Sprintf("%s:%d", tt.from, 20000+i), to))
			}
			if r.suite.Limits.NewestOnly {
				open = open[len(open)-1:]
			}
			for _, c := range slices.Repeat(open, 2) {
				if got := c.say(t); !strings.Contains(got, "pod p1 ") {
					t.Errorf("at %s answers %q", c.RemoteAddr(), got)
				}
			}
		})
	}
}

// openFrom connects from a port that may be another connection's, too.
func (r *runner) openFrom(t *testing.T, host, from, to string) connection {
	t.Helper()
	local, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	dialer := net.Dialer{LocalAddr: local, Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
		if err != nil {
			return err
		}
		return failed
	}}
	ctx, cancel := context.WithTimeout(t.Context(), r.suite.Patience)
	defer cancel()
	c, err := r.site.lab.DialWith(ctx, host, dialer, "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(r.suite.Patience)); err != nil {
		t.Fatal(err)
	}
	return connection{c, bufio.NewReader(c)}
}
