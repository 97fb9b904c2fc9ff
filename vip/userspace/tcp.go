package userspace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/bpf"

	"signpost/vip"
)

// tcpSocket is a TCP listener on one address.
type tcpSocket struct {
	s        *server
	at       netip.AddrPort
	listener *net.TCPListener
	filter   []bpf.Instruction // on the listener now
}

func (s *server) listenTCP(at netip.AddrPort) (socket, error) {
	t := &tcpSocket{s: s, at: at}
	config := net.ListenConfig{Control: func(network, address string, c syscall.RawConn) error {
		t.refilter(c) // before the first packet can come
		return s.prepare(network, address, c)
	}}
	config.SetMultipathTCP(false) // socket filters don't work on it
	l, err := config.Listen(s.b.ctx, "tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	t.listener = l.(*net.TCPListener)
	s.b.running.Go(t.accept)
	return t, nil
}

func (t *tcpSocket) refresh() {
	if raw, err := t.listener.SyscallConn(); err == nil {
		t.refilter(raw)
	}
}

// refilter brings the filter up to date. Without one, accept resets those who
// should not get an answer.
func (t *tcpSocket) refilter(c syscall.RawConn) {
	want := filterFor(t.s.current.Load(), t.s.b.node.Load(), t.at.Addr())
	if slices.Equal(want, t.filter) {
		return
	}
	if err := attach(c, want); err != nil {
		t.s.b.log.Warn("resetting connections that should be dropped", "frontend", t.s.frontend, "err", err)
		want = nil
		_ = attach(c, nil) // a stale filter would keep out the wrong ones
	}
	t.filter = want
}

func (t *tcpSocket) close() { _ = t.listener.Close() }

func (t *tcpSocket) accept() {
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		conn, err := t.listener.AcceptTCP()
		switch {
		case err == nil:
			pause = shortest
			t.admit(conn)
		case errors.Is(err, net.ErrClosed) || !t.s.b.wait(pause):
			return
		default: // no files or memory left: the backlog waits too
			if pause == shortest {
				t.s.b.log.Warn("accepting connections", "frontend", t.s.frontend, "err", err)
			}
			pause = min(2*pause, longest)
		}
	}
}

// wait sleeps, and reports false if the backend ends before.
func (b *Backend) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.ctx.Done():
		return false
	}
}

// admit starts to serve a connection, or resets it.
func (t *tcpSocket) admit(conn *net.TCPConn) {
	b, v := t.s.b, t.s.current.Load()
	client := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	verdict, set := b.node.Load().judge(v, client, t.at.Addr())
	if verdict != serve || !b.conns.add(conn) {
		reset(conn)
		return
	}
	b.addrs.use(t.at.Addr())
	b.running.Go(func() {
		defer b.release(t.at.Addr())
		defer b.conns.remove(conn)
		if b.ctx.Err() != nil { // too late for Close to see this one
			reset(conn)
			return
		}
		t.serve(conn, v, set, client)
	})
}

func (t *tcpSocket) serve(conn *net.TCPConn, v *vip.VirtualServer, set vip.Set, client netip.Addr) {
	endpoint, to, err := t.s.connect(v, set, client, t.at)
	if err != nil {
		t.s.b.log.Debug("resetting a connection", "frontend", t.s.frontend, "client", client, "err", err)
		reset(conn)
		return
	}
	t.s.choose.took(v, client, to)
	join(conn, endpoint)
}
