package userspace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// session ties a UDP client to an endpoint by a socket of its own.
type session struct {
	client   netip.AddrPort
	endpoint netip.AddrPort
	upstream *net.UDPConn
	in       *receiver
	started  time.Time    // the clock of last: monotonic (L-09)
	last     atomic.Int64 // time of the last datagram, ns after started
}

func newSession(client, endpoint netip.AddrPort, upstream *net.UDPConn) (*session, error) {
	in, err := newReceiver(upstream)
	if err != nil {
		_ = upstream.Close()
		return nil, err
	}
	return &session{client: client, endpoint: endpoint, upstream: upstream, in: in, started: time.Now()}, nil
}

func (s *session) touch() { s.last.Store(int64(time.Since(s.started))) }

func (s *session) idle() time.Duration { return time.Since(s.started) - time.Duration(s.last.Load()) }

// receiver reads datagrams into buffers that it borrows only when there is one
// to read: thousands of waiting sockets need no memory of their own.
type receiver struct {
	conn *net.UDPConn
	raw  syscall.RawConn
}

func newReceiver(c *net.UDPConn) (*receiver, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("preparing to receive: %w", err)
	}
	return &receiver{c, raw}, nil
}

// next returns the next datagram and its sender. The caller frees it.
func (r *receiver) next() (*datagram, netip.AddrPort, error) {
	if err := r.ready(); err != nil {
		return nil, netip.AddrPort{}, err
	}
	d := datagrams.Get().(*datagram)
	n, from, err := r.conn.ReadFromUDPAddrPort(d.buffer[:])
	if err != nil {
		d.free()
		return nil, netip.AddrPort{}, fmt.Errorf("receiving: %w", err)
	}
	d.bytes = d.buffer[:n]
	return d, from, nil
}

// ready waits until a datagram or an error is there to be read.
func (r *receiver) ready() error {
	var pending error
	err := r.raw.Read(func(fd uintptr) bool {
		_, _, pending = unix.Recvfrom(int(fd), nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return pending != unix.EAGAIN
	})
	if err == nil && !errors.Is(pending, unix.EINTR) {
		err = pending
	}
	if err != nil {
		return fmt.Errorf("waiting for a datagram: %w", err)
	}
	return nil
}

// datagram is a borrowed buffer that the largest datagram fits in.
type datagram struct {
	bytes  []byte
	buffer [64 << 10]byte
}

var datagrams = sync.Pool{New: func() any { return new(datagram) }}

func (d *datagram) free() { datagrams.Put(d) }
