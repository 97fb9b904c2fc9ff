package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drainGrace is how long a stopping listener goes on to read, to answer what
// clients had sent before.
const drainGrace = 50 * time.Millisecond

// listener serves one listening address over UDP and TCP. Its sockets live as
// long as configurations name the address; what they serve can be swapped.
type listener struct {
	srv  *Server
	key  string         // the address as configured, with its transport
	addr netip.AddrPort // the address as bound
	udp  []*udpSocket
	tcp  *tcpServer
	doh  *dohServer // nil: another transport

	serving  atomic.Pointer[serving]
	loops    sync.WaitGroup // read loops, the accept loop and its connections
	inflight sync.WaitGroup // UDP queries being answered

	stopping chan struct{}
	// drainUntil is set before stopping is closed.
	drainUntil time.Time
}

// open opens a listener for each address of the plan that has none yet: all,
// or none and an error.
func (s *Server) open(ctx context.Context, cfg Config, p plan) ([]*listener, error) {
	var opened []*listener
	for key, sv := range p {
		if s.listeners[key] != nil {
			continue
		}
		l, err := s.openListener(ctx, key, cfg, opened)
		if err != nil {
			for _, l := range opened {
				l.close()
			}
			return nil, fmt.Errorf("listening on %q: %w", key, err)
		}
		l.serving.Store(sv)
		opened = append(opened, l)
	}
	return opened, nil
}

// openListener opens the sockets of one address.
func (s *Server) openListener(ctx context.Context, key string, cfg Config, opened []*listener) (*listener, error) {
	transport, addr, err := splitKey(key)
	if err != nil {
		return nil, err
	}
	l := &listener{srv: s, key: key, stopping: make(chan struct{})}
	if transport != PlainDNS {
		cfg.UDPSockets = 0
	}
	if transport == DoH {
		l.doh = newDoHServer(l, cfg.TCP)
	}
	if addr.Port() == 0 {
		return l, l.openAnyPort(ctx, addr, cfg)
	}
	if !s.ownsPort(addr.Port(), opened) {
		if err := probeFree(ctx, addr); err != nil {
			return nil, err
		}
	}
	return l, l.openSockets(ctx, addr, cfg)
}

// ownsPort reports whether the server itself already listens on the port.
func (s *Server) ownsPort(port uint16, opened []*listener) bool {
	for _, l := range s.listeners {
		if l.addr.Port() == port {
			return true
		}
	}
	for _, l := range opened {
		if l.addr.Port() == port {
			return true
		}
	}
	return false
}

// probeFree makes sure that nobody else has the address. With SO_REUSEPORT the
// kernel would let two processes of one user share it unnoticed, each getting
// half of the queries.
func probeFree(ctx context.Context, addr netip.AddrPort) error {
	ln, err := new(net.ListenConfig).Listen(ctx, listenNetwork("tcp", addr), listenString(addr))
	if err != nil {
		return err //nolint:wrapcheck // names the operation and the address
	}
	return ln.Close() //nolint:wrapcheck // adds nothing
}

// probeUDP makes sure that no UDP socket has a port that is free for TCP: that
// of a server which is about to end would go on taking part of the queries.
func probeUDP(ctx context.Context, addr netip.AddrPort) error {
	conn, err := new(net.ListenConfig).ListenPacket(ctx, listenNetwork("udp", addr), listenString(addr))
	if err != nil {
		return err //nolint:wrapcheck // names the operation and the address
	}
	return conn.Close() //nolint:wrapcheck // adds nothing
}

// anyPortAttempts is how often a free TCP port may turn out to be taken for
// UDP.
const anyPortAttempts = 16

// openAnyPort finds a port that is free for both transports.
func (l *listener) openAnyPort(ctx context.Context, addr netip.AddrPort, cfg Config) error {
	var err error
	for range anyPortAttempts {
		if err = l.openSockets(ctx, addr, cfg); !errors.Is(err, unix.EADDRINUSE) {
			return err
		}
	}
	return err
}

// openSockets opens TCP, then UDP on the same port.
func (l *listener) openSockets(ctx context.Context, addr netip.AddrPort, cfg Config) error {
	lc := net.ListenConfig{Control: reusePort}
	ln, err := lc.Listen(ctx, listenNetwork("tcp", addr), listenString(addr))
	if err != nil {
		return err //nolint:wrapcheck // names the operation and the address
	}
	l.tcp = newTCPServer(l, ln.(*net.TCPListener))
	l.addr = ln.Addr().(*net.TCPAddr).AddrPort()
	if addr.Port() == 0 {
		addr = netip.AddrPortFrom(addr.Addr(), l.addr.Port())
		if err := probeUDP(ctx, addr); err != nil {
			l.close()
			return err
		}
	}
	for i := range cfg.UDPSockets {
		u, err := openUDP(ctx, l, addr, i)
		if err != nil {
			l.close()
			return err
		}
		l.udp = append(l.udp, u)
	}
	return nil
}

// listenString is the address as package net wants it: without a host for all
// addresses of both families.
func listenString(addr netip.AddrPort) string {
	if !addr.Addr().IsValid() {
		return ":" + strconv.Itoa(int(addr.Port()))
	}
	return addr.String()
}

// listenNetwork keeps package net from taking 0.0.0.0 for both families.
func listenNetwork(network string, addr netip.AddrPort) string {
	if addr.Addr().Is4() {
		return network + "4"
	}
	return network
}

// reusePort lets several sockets share an address; the kernel spreads clients
// over them.
func reusePort(_, _ string, c syscall.RawConn) error {
	return control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
}

// control runs f on the file descriptor.
func control(c syscall.RawConn, f func(fd int) error) error {
	var ferr error
	if err := c.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err //nolint:wrapcheck // adds nothing
	}
	return ferr
}

// start starts the loops; stop waits for them.
func (l *listener) start() {
	for _, u := range l.udp {
		l.loops.Go(u.loop)
	}
	if l.doh != nil {
		l.loops.Go(l.doh.run)
		return
	}
	l.loops.Go(l.tcp.acceptLoop)
}

// stop reads what has arrived, waits until everything is answered and closes
// the sockets. If ctx ends first, connections are cut, and its error returned
// once the queries in flight have failed.
func (l *listener) stop(ctx context.Context) error {
	l.drainUntil = time.Now().Add(drainGrace)
	close(l.stopping)
	for _, u := range l.udp {
		_ = u.conn.SetReadDeadline(l.drainUntil) // fails on closed sockets only
	}
	l.drainStreams()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.loops.Wait()
		l.inflight.Wait()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("stopping listener %q: %w", l.key, ctx.Err())
		l.abortStreams()
		<-done
	}
	l.close()
	return err
}

// drainStreams lets connections end what they have begun.
func (l *listener) drainStreams() {
	if l.doh != nil {
		l.loops.Go(l.doh.drain)
		return
	}
	l.tcp.drain(l.drainUntil)
}

// abortStreams cuts all connections.
func (l *listener) abortStreams() {
	if l.doh != nil {
		l.doh.abort()
		return
	}
	l.tcp.abort()
}

// stopped reports whether the listener is to end.
func (l *listener) stopped() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

// pause lets a moment pass after an error that may repeat at once, such as no
// file descriptors left.
func (l *listener) pause() {
	t := time.NewTimer(10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.stopping:
	}
}

// close closes the sockets.
func (l *listener) close() {
	for _, u := range l.udp {
		_ = u.conn.Close() // datagrams: nothing is buffered
	}
	l.udp = nil
	_ = l.tcp.ln.Close() // may be closed already
}
