package kube

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// B10: a connection that is dead is given up within 30 s, idle or not.
func TestDeadConnections(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	d := dialer()
	conn, err := d.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(level, name int) (value int) {
		if err := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) }); err != nil {
			t.Fatal(err)
		}
		return value
	}
	idle := option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE) + option(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)*option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
	busy := option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	if option(unix.SOL_SOCKET, unix.SO_KEEPALIVE) == 0 || idle > 30 || busy == 0 || busy > 30_000 || d.Timeout > 30*time.Second {
		t.Errorf("given up after %d s idle, %d ms busy, %v while dialling", idle, busy, d.Timeout)
	}
}
