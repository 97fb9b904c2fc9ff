package dnsserver

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

const (
	// tcpReadBuffer holds several queries of usual size.
	tcpReadBuffer = 4096
	// tcpLinger is how long a connection that we end is still read, so that
	// the client sees an end and not a reset that takes replies with it.
	tcpLinger = time.Second
)

// tcpConn is one connection. Queries are read one after the other and answered
// at the same time: whichever is done first is sent first (RFC 7766 6.2.1.1,
// W23).
type tcpConn struct {
	t     *tcpServer
	conn  streamConn
	peer  netip.AddrPort
	shard int
	r     *bufio.Reader
	// tokens bounds the queries of this connection in flight.
	tokens   chan struct{}
	inflight sync.WaitGroup
	pending  atomic.Int32

	mu  sync.Mutex // guards writing
	out []byte
}

// streamConn is a connection that can be closed for one direction: TCP, or TLS
// over it.
type streamConn interface {
	net.Conn
	CloseWrite() error
}

// peerOf is the client's address.
func peerOf(c net.Conn) netip.AddrPort { return c.RemoteAddr().(*net.TCPAddr).AddrPort() }

func newTCPConn(t *tcpServer, conn streamConn, n int) *tcpConn {
	return &tcpConn{
		t: t, conn: conn, shard: n,
		peer:   peerOf(conn),
		r:      bufio.NewReaderSize(conn, tcpReadBuffer),
		tokens: make(chan struct{}, t.l.serving.Load().cfg.TCP.MaxPipelined),
	}
}

// run serves the connection until it ends.
func (c *tcpConn) run() {
	defer c.t.forget(c.conn)
	for {
		frame, err := c.next()
		if errors.Is(err, errBadFrame) {
			c.t.l.srv.metrics.dropped(dropJunk)
		}
		if err != nil {
			c.inflight.Wait()
			c.end(err)
			return
		}
		if !c.handle(frame) {
			c.inflight.Wait()
			c.end(nil)
			return
		}
	}
}

// errBadFrame is a length that no query can have.
var errBadFrame = errors.New("reading query: bad length")

// next reads the next length-prefixed message (RFC 1035 4.2.2). It is valid
// until the one after it is read.
func (c *tcpConn) next() ([]byte, error) {
	prefix, err := c.awaitPrefix()
	if err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(prefix))
	if n < headerLen { // W22: nothing that could be answered
		return nil, errBadFrame
	}
	if 2+n <= tcpReadBuffer {
		frame, err := c.r.Peek(2 + n)
		if err != nil {
			return nil, err //nolint:wrapcheck // only looked at, never shown
		}
		_, err = c.r.Discard(len(frame)) // moves on, no more
		return frame[2:], err            //nolint:wrapcheck // as above
	}
	frame := make([]byte, 2+n)
	if _, err := io.ReadFull(c.r, frame); err != nil {
		return nil, err //nolint:wrapcheck // only looked at, never shown
	}
	return frame[2:], nil
}

// awaitPrefix waits until two octets are there. Time with queries in flight
// isn't idle time.
func (c *tcpConn) awaitPrefix() ([]byte, error) {
	for {
		c.extendDeadline()
		prefix, err := c.r.Peek(2)
		idle := errors.Is(err, os.ErrDeadlineExceeded) && len(prefix) == 0
		if idle && c.pending.Load() > 0 && !c.t.l.stopped() {
			continue
		}
		return prefix, err //nolint:wrapcheck // only looked at, never shown
	}
}

// extendDeadline gives the client time for one more query.
func (c *tcpConn) extendDeadline() {
	if c.r.Buffered() >= 2 && !c.t.l.stopped() {
		return // what is there won't wait
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(c.t.l.serving.Load().cfg.TCP.Idle)) // a read will tell
	if c.t.l.stopped() {                                                          // looked at after setting: drain sets its own
		_ = c.conn.SetReadDeadline(c.t.l.drainUntil)
	}
}

// handle starts answering a query; false means that the connection must end.
func (c *tcpConn) handle(frame []byte) bool {
	s, sv := c.t.l.srv, c.t.l.serving.Load()
	var buf [512]byte
	in, v := s.screen(sv, c, protoTCP, frame, buf[:])
	if v != accept {
		// After a malformed message the frames may be out of step.
		return v == reject && in.rcode != dns.RcodeFormatError
	}
	if c.answerFast(sv, frame, &in) {
		return true
	}
	if !c.acquire(s) {
		return false
	}
	raw := bytes.Clone(frame) // the reader goes on
	q := &query{serving: sv, proto: protoTCP, shard: c.shard, in: in, raw: raw, client: c}
	c.pending.Add(1)
	c.inflight.Go(func() {
		defer c.release(s)
		s.serve(q)
	})
	return true
}

// acquire takes a token of the connection and one of the server. Waiting here
// is what slows a greedy client down.
func (c *tcpConn) acquire(s *Server) bool {
	select {
	case c.tokens <- struct{}{}:
	case <-s.base.Done():
		return false
	}
	if s.tcpSlots.acquire(s.base) {
		return true
	}
	<-c.tokens
	return false
}

// release gives the tokens back.
func (c *tcpConn) release(s *Server) {
	s.tcpSlots.release()
	c.pending.Add(-1)
	<-c.tokens
}

// end closes the connection. Unless the client has done so already, it is told
// first and then read for a while: closing with unread data would reset the
// connection, and lose replies on their way.
func (c *tcpConn) end(reason error) {
	defer func() { _ = c.conn.Close() }() // everything was flushed or lost
	if errors.Is(reason, io.EOF) || c.conn.CloseWrite() != nil {
		return
	}
	linger := tcpLinger
	if c.t.l.stopped() {
		linger = drainGrace
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(linger)) // a read will tell
	_, _ = io.Copy(io.Discard, c.conn)                 // until the client closes or time is up
}

// send implements client: one write for prefix and message.
func (c *tcpConn) send(reply []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = binary.BigEndian.AppendUint16(c.out[:0], uint16(len(reply)))
	c.out = append(c.out, reply...)
	if cap(c.out) > tcpReadBuffer {
		defer func() { c.out = nil }() // large replies are rare, connections many
	}
	return c.writeLocked(c.out)
}

// write sends a message with its prefix.
func (c *tcpConn) write(framed []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writeLocked(framed)
}

func (c *tcpConn) writeLocked(framed []byte) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.t.l.serving.Load().cfg.TCP.Write)) // the write will tell
	_, err := c.conn.Write(framed)
	if err != nil { // a part may be out: nothing sensible can follow
		_ = c.conn.Close()
	}
	return err //nolint:wrapcheck // only counted
}

// remote implements client.
func (c *tcpConn) remote() netip.AddrPort { return c.peer }

// local implements client.
func (c *tcpConn) local() netip.AddrPort {
	return c.conn.LocalAddr().(*net.TCPAddr).AddrPort()
}

var (
	_ client = (*tcpConn)(nil)
	_ client = (*udpPacket)(nil)
)
