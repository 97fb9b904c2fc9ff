package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// errForged is a reply that doesn't belong to the question.
var errForged = errors.New("reply doesn't match the question")

// exchanger asks upstreams. Each exchange over UDP has a socket of its own, so
// its source port is as random as its id; the socket is connected, so that the
// kernel drops what other addresses send. Connections over TCP and TLS are
// used again.
type exchanger struct {
	udpSize uint16
	source  netip.Addr         // to ask from; invalid: any
	forged  prometheus.Counter // replies that don't belong to the question
	outside prometheus.Counter // records that don't
}

// do asks one upstream until ctx ends. A truncated reply is asked for again
// over TCP; if that fails the truncated one stands, with TC.
func (e *exchanger) do(ctx context.Context, up *upstream, r *dns.Msg, tcp bool) (*dns.Msg, error) {
	asked := e.question(r)
	if up.https != nil {
		asked.Id = 0 // nothing is to be told apart, and caches see one question (RFC 8484 4.1)
	}
	wire, err := asked.Pack()
	if err != nil {
		return nil, fmt.Errorf("packing question: %w", err)
	}
	reply, err := e.exchange(ctx, up, asked, wire, tcp)
	if err != nil {
		return nil, err
	}
	if n := scrub(reply); n > 0 {
		e.outside.Add(float64(n))
	}
	return reply, nil
}

func (e *exchanger) exchange(ctx context.Context, up *upstream, asked *dns.Msg, wire []byte, stream bool) (*dns.Msg, error) {
	switch {
	case up.transport == DoH:
		return e.overHTTPS(ctx, up, asked, wire)
	case up.transport == DoT || stream:
		return e.overStream(ctx, up, asked, wire)
	}
	reply, err := e.overUDP(ctx, up, asked, wire)
	if err != nil || !reply.Truncated {
		return reply, err
	}
	if whole, err := e.overStream(ctx, up, asked, wire); err == nil {
		return whole, nil
	}
	return reply, nil
}

// question makes the message for the upstream: the client's question and
// flags with our own id. Hop-by-hop EDNS options aren't passed on (RFC 6891
// 6.1.1, RFC 7873 5, RFC 7828).
func (e *exchanger) question(r *dns.Msg) *dns.Msg {
	m := &dns.Msg{MsgHdr: r.MsgHdr, Question: r.Question[:1]}
	m.Id = uint16(rand.Uint32())
	m.Response, m.Authoritative, m.Truncated, m.RecursionAvailable, m.Zero = false, false, false, false, false
	m.Rcode = dns.RcodeSuccess
	opt := r.IsEdns0()
	if opt == nil {
		return m
	}
	m.SetEdns0(e.udpSize, opt.Do())
	own := m.IsEdns0()
	for _, o := range opt.Option {
		switch o.Option() {
		case dns.EDNS0COOKIE, dns.EDNS0TCPKEEPALIVE, dns.EDNS0PADDING:
		default:
			own.Option = append(own.Option, o)
		}
	}
	return m
}

// overUDP sends the question once and waits for the reply that belongs to it,
// passing over whatever else arrives at the port.
func (e *exchanger) overUDP(ctx context.Context, up *upstream, asked *dns.Msg, wire []byte) (*dns.Msg, error) {
	up.dials.Inc()
	dialer := net.Dialer{LocalAddr: localUDP(e.source)}
	conn, err := dialer.DialContext(ctx, "udp", up.label)
	if err != nil {
		return nil, err //nolint:wrapcheck // names the operation and the address
	}
	defer func() { _ = conn.Close() }() // nothing is buffered
	defer bind(ctx, conn)()
	if _, err := conn.Write(wire); err != nil {
		return nil, fmt.Errorf("sending: %w", err)
	}
	buf := upstreamBuffers.Get().(*[maxUDPRequest]byte)
	defer upstreamBuffers.Put(buf)
	for {
		n, err := conn.Read(buf[:])
		if err != nil {
			return nil, fmt.Errorf("waiting for reply: %w", err)
		}
		reply, err := matching(asked, buf[:n])
		if err == nil {
			return reply, nil
		}
		e.forged.Inc()
	}
}

// upstreamBuffers are for one datagram each.
var upstreamBuffers = sync.Pool{New: func() any { return new([maxUDPRequest]byte) }}

// overStream asks over TCP or TLS. A connection that was kept may have been
// closed by the other side meanwhile: then the next one is tried, at last a
// new one.
func (e *exchanger) overStream(ctx context.Context, up *upstream, asked *dns.Msg, wire []byte) (*dns.Msg, error) {
	for {
		conn, reused, err := up.pool.get(ctx)
		if err != nil {
			return nil, err
		}
		reply, err := e.overConn(ctx, conn, asked, wire)
		if err == nil {
			up.pool.put(conn)
			return reply, nil
		}
		_ = conn.Close() // out of step, whatever it was
		if !reused || ctx.Err() != nil || errors.Is(err, errForged) {
			return nil, err
		}
	}
}

// overConn sends the question over a connection and reads the reply.
func (e *exchanger) overConn(ctx context.Context, conn net.Conn, asked *dns.Msg, wire []byte) (*dns.Msg, error) {
	defer bind(ctx, conn)()
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(wire)), uint16(len(wire)))
	if _, err := conn.Write(append(framed, wire...)); err != nil {
		return nil, fmt.Errorf("sending: %w", err)
	}
	var prefix [2]byte
	if _, err := io.ReadFull(conn, prefix[:]); err != nil {
		return nil, fmt.Errorf("waiting for reply: %w", err)
	}
	buf := make([]byte, binary.BigEndian.Uint16(prefix[:]))
	if _, err := io.ReadFull(conn, buf); err != nil {
		return nil, fmt.Errorf("reading reply: %w", err)
	}
	reply, err := matching(asked, buf)
	if err != nil {
		e.forged.Inc()
	}
	return reply, err
}

// bind makes the connection's operations end with ctx, until the function that
// it returns is called.
func bind(ctx context.Context, conn net.Conn) (release func()) {
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline) // fails on closed connections only
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// matching unpacks a reply and checks that it answers the question asked: id,
// name, type and class. An error may come without a question, as some servers
// send it.
func matching(asked *dns.Msg, wire []byte) (*dns.Msg, error) {
	reply := new(dns.Msg)
	if err := reply.Unpack(wire); err != nil {
		return nil, fmt.Errorf("unpacking reply: %w", err)
	}
	if err := wholeRecords(reply); err != nil {
		return nil, fmt.Errorf("unpacking reply: %w", err)
	}
	if reply.Id != asked.Id || !reply.Response || reply.Opcode != asked.Opcode {
		return nil, errForged
	}
	if len(reply.Question) == 0 && reply.Rcode != dns.RcodeSuccess && len(reply.Answer) == 0 {
		return reply, nil
	}
	if len(reply.Question) != 1 || !sameQuestion(reply.Question[0], asked.Question[0]) {
		return nil, errForged
	}
	return reply, nil
}

// sameQuestion compares questions; servers may change the case of a name.
func sameQuestion(a, b dns.Question) bool {
	return a.Qtype == b.Qtype && a.Qclass == b.Qclass && strings.EqualFold(a.Name, b.Name)
}
