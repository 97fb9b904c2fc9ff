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
	conns     map[net.Conn]struct{}
	perClient map[netip.Addr]int
}

func newTCPServer(l *listener, ln *net.TCPListener) *tcpServer {
	return &tcpServer{l: l, ln: ln, conns: map[net.Conn]struct{}{}, perClient: map[netip.Addr]int{}}
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
		c := newTCPConn(t, t.secure(conn), n)
		if !t.admit(c.conn) {
			t.l.srv.metrics.dropped(dropConns)
			_ = conn.Close() // nothing was promised
			continue
		}
		t.l.loops.Go(c.run)
	}
}

// admit takes the connection in if the limits allow it (W24).
func (t *tcpServer) admit(c net.Conn) bool {
	limits := t.l.serving.Load().cfg.TCP
	t.mu.Lock()
	defer t.mu.Unlock()
	from := peerOf(c).Addr()
	if t.l.stopped() || len(t.conns) >= limits.MaxConns || t.perClient[from] >= limits.MaxClientConns {
		return false
	}
	t.conns[c] = struct{}{}
	t.perClient[from]++
	return true
}

// forget takes a connection out that has ended.
func (t *tcpServer) forget(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, admitted := t.conns[c]; !admitted {
		return
	}
	delete(t.conns, c)
	from := peerOf(c).Addr()
	if t.perClient[from]--; t.perClient[from] == 0 {
		delete(t.perClient, from)
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
		_ = c.SetReadDeadline(until) // fails if it is closed
	}
}

// abort cuts all connections.
func (t *tcpServer) abort() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.conns {
		_ = c.Close() // whoever uses it notices
	}
}
