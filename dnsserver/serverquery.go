package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// proto is how a query came.
type proto uint8

const (
	protoUDP proto = iota
	protoTCP
	numProtos
)

// String returns the name that metrics and the query log use.
func (p proto) String() string { return [numProtos]string{"udp", "tcp"}[p] }

// client is the way back to whoever asked.
type client interface {
	// send sends one message. It doesn't keep the bytes.
	send(reply []byte) error
	local() netip.AddrPort
	remote() netip.AddrPort
}

// query is one question on its way through a chain: the response writer at the
// bottom of all others, and the record that metrics and logs are made from.
// It belongs to one goroutine at a time.
type query struct {
	srv     *Server
	serving *serving
	route   *route
	proto   proto
	shard   int
	in      inspected
	raw     []byte // the request, valid until serve returns
	client  client
	start   time.Time
	ctx     context.Context // miekg's handlers have no parameter for it

	// internal is set for questions that the server asks itself: the reply is
	// kept, not packed.
	internal bool
	depth    int // how many questions this one is nested in
	reply    *dns.Msg

	// handler is who answered.
	handler answerer
	// err is why a handler answered SERVFAIL, for the error log.
	err error
	// ede is what a handler has to say beyond the rcode.
	ede *extendedError

	written bool
	empty   bool // no record in the answer section
	rcode   int
	size    int
	flags   uint16 // the reply's second header word
}

// Errors of writing a reply.
var (
	errWritten = errors.New("writing reply: already written")
	errTooBig  = errors.New("writing reply: larger than the client takes")
)

// WriteMsg implements [dns.ResponseWriter]. One query has one reply.
func (q *query) WriteMsg(m *dns.Msg) error {
	if q.written {
		return errWritten
	}
	q.written = true
	q.rcode, q.empty = m.Rcode, len(m.Answer) == 0
	if q.internal {
		q.reply = m
		return nil
	}
	buf := replyBuffers.Get().(*[]byte)
	defer replyBuffers.Put(buf)
	wire, err := packReply((*buf)[:cap(*buf)], q.raw, &q.in, m, q.shape())
	if err != nil {
		q.err = errors.Join(q.err, err)
		q.rcode = dns.RcodeServerFailure
		wire = appendReject((*buf)[:0], q.raw, q.rejection(q.rcode), q.shape().opt)
	}
	*buf = wire
	return q.send(wire)
}

// Write implements [dns.ResponseWriter] for a reply that is packed already.
func (q *query) Write(wire []byte) (int, error) {
	switch {
	case q.written:
		return 0, errWritten
	case len(wire) < headerLen || len(wire) > q.limit():
		return 0, errTooBig
	case q.internal:
		m := new(dns.Msg)
		if err := m.Unpack(wire); err != nil {
			return 0, err //nolint:wrapcheck // says what is wrong with the message
		}
		return len(wire), q.WriteMsg(m)
	}
	q.written = true
	q.rcode, q.empty = int(wire[3]&rcodeMask), wire[6]|wire[7] == 0
	return len(wire), q.send(wire)
}

// send notes what goes out and sends it.
func (q *query) send(wire []byte) error {
	q.size = len(wire)
	q.flags = uint16(wire[2])<<8 | uint16(wire[3])
	err := q.client.send(wire)
	if err != nil {
		q.srv.metrics.dropped(dropSend)
	}
	return err
}

// fail replies with an rcode and no records, if nothing was replied yet.
func (q *query) fail(rcode int) {
	m := new(dns.Msg)
	m.Rcode = rcode
	_ = q.WriteMsg(m) // nobody is left to tell
}

// rejection is what was inspected, with another rcode.
func (q *query) rejection(rcode int) *inspected {
	in := q.in
	in.rcode = rcode
	return &in
}

// limit is the largest reply.
func (q *query) limit() int {
	if q.proto == protoTCP {
		return maxTCPSize
	}
	return q.in.edns.udpLimit(q.udpSize())
}

// udpSize is what the zone's block, else the server, sets.
func (q *query) udpSize() uint16 {
	if q.route != nil {
		return q.route.udpSize
	}
	return q.serving.cfg.MaxUDPSize
}

// shape is what the reply owes to the request and its transport.
func (q *query) shape() replyShape {
	opt := replyOPTFor(&q.in, q.proto, q.udpSize(), q.serving.cfg.TCP.Idle)
	if opt != nil {
		opt.ede = q.ede
		q.srv.addCookie(opt, &q.in, q.client)
	}
	return replyShape{limit: q.limit(), opt: opt, recursion: q.route != nil && q.route.recursion}
}

// provesAddress reports whether the client has shown that it is where its
// packets say: by a connection, or by a cookie that only it can have.
func (q *query) provesAddress() bool {
	return q.proto != protoUDP || q.srv.cookies.check(&q.in.edns.cookie, q.client.remote().Addr())
}

// LocalAddr implements [dns.ResponseWriter].
func (q *query) LocalAddr() net.Addr { return netAddr(q.proto, q.client.local()) }

// RemoteAddr implements [dns.ResponseWriter].
func (q *query) RemoteAddr() net.Addr { return netAddr(q.proto, q.client.remote()) }

// netAddr makes the address type that belongs to the transport.
func netAddr(p proto, a netip.AddrPort) net.Addr {
	if p == protoTCP {
		return net.TCPAddrFromAddrPort(a)
	}
	return net.UDPAddrFromAddrPort(a)
}

// Close implements [dns.ResponseWriter]; connections aren't handlers' business.
func (q *query) Close() error { return nil }

// TsigStatus implements [dns.ResponseWriter].
func (q *query) TsigStatus() error { return nil }

// TsigTimersOnly implements [dns.ResponseWriter].
func (q *query) TsigTimersOnly(bool) {}

// Hijack implements [dns.ResponseWriter].
func (q *query) Hijack() {}

var _ dns.ResponseWriter = (*query)(nil)

// wrapped is embedded by the response writers of middleware, so that the
// query below can be found.
type wrapped struct{ dns.ResponseWriter }

func (w wrapped) unwrap() dns.ResponseWriter { return w.ResponseWriter }

// queryOf returns the query under w; nil when w isn't one of the server's
// writers, as in a handler's own tests.
func queryOf(w dns.ResponseWriter) *query {
	for {
		switch v := w.(type) {
		case *query:
			return v
		case interface{ unwrap() dns.ResponseWriter }:
			w = v.unwrap()
		default:
			return nil
		}
	}
}

// queryContext returns the context of the query under w. It ends when the
// server has to, and carries what [Resolve] needs.
func queryContext(w dns.ResponseWriter) context.Context {
	if q := queryOf(w); q != nil {
		return context.WithValue(q.ctx, queryKey{}, q)
	}
	return context.Background()
}

// queryKey is the context key of the query that a question was asked for.
type queryKey struct{}
