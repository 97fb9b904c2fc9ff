package kube

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged has the kernel give up a connection whose data nobody
// confirms. Without it that takes a quarter of an hour, and keepalive doesn't
// help while data is on the way.
func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	var err error
	if failed := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledged.Milliseconds()))
	}); failed != nil {
		return failed //nolint:wrapcheck // the dialer says what it was doing
	}
	return err //nolint:wrapcheck // the dialer says what it was doing
}
