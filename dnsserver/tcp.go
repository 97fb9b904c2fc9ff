package dnsserver

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// tcpServer accepts the connections of a listening address and keeps them
// within the limits.
type tcpServer struct {
	l  *listener
	ln *net.TCPListener

	mu        sync.Mutex
	conns     map[*tcpConn]struct{}
	perClient map[netip.Addr]int
}

func newTCPServer(l *listener, ln *net.TCPListener) *tcpServer {
	return &tcpServer{l: l, ln: ln, conns: map[*tcpConn]struct{}{}, perClient: map[netip.Addr]int{}}
}

// acceptLoop accepts until the listener stops.
func (t *tcpServer) acceptLoop() {
	for n := 0; ; n++ {
		conn, err := t.ln.AcceptTCP()
		if err != nil {
			if t.l.stopped() {
				return
			}
			t.l.pause()
			continue
		}
		c := newTCPConn(t, conn, n)
		if !t.admit(c) {
			t.l.srv.metrics.dropped(dropConns)
			_ = conn.Close() // nothing was promised
			continue
		}
		t.l.loops.Go(c.run)
	}
}

// admit takes the connection in if the limits allow it (W24).
func (t *tcpServer) admit(c *tcpConn) bool {
	limits := t.l.serving.Load().cfg.TCP
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.l.stopped() || len(t.conns) >= limits.MaxConns || t.perClient[c.peer.Addr()] >= limits.MaxClientConns {
		return false
	}
	t.conns[c] = struct{}{}
	t.perClient[c.peer.Addr()]++
	return true
}

// forget takes a connection out that has ended.
func (t *tcpServer) forget(c *tcpConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
	if t.perClient[c.peer.Addr()]--; t.perClient[c.peer.Addr()] == 0 {
		delete(t.perClient, c.peer.Addr())
	}
}

// drain stops accepting and lets connections read until the given moment; each
// ends when its queries are answered. The listener is already marked as
// stopping.
func (t *tcpServer) drain(until time.Time) {
	_ = t.ln.Close() // fails if it is closed
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.conns {
		_ = c.conn.SetReadDeadline(until) // fails if it is closed
	}
}

// abort cuts all connections.
func (t *tcpServer) abort() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.conns {
		_ = c.conn.Close() // whoever uses it notices
	}
}
