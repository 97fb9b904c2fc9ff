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
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// errForged is a reply that doesn't belong to the question.
var errForged = errors.New("reply doesn't match the question")

// exchanger asks upstreams. Each exchange has a socket of its own, so its
// source port is as random as its id; the socket is connected, so that the
// kernel drops what other addresses send.
type exchanger struct {
	udpSize uint16
	forged  prometheus.Counter
}

// do asks one upstream until ctx ends. A truncated reply is asked for again
// over TCP; if that fails the truncated one stands, with TC.
func (e *exchanger) do(ctx context.Context, to netip.AddrPort, r *dns.Msg, tcp bool) (*dns.Msg, error) {
	asked := e.question(r)
	wire, err := asked.Pack()
	if err != nil {
		return nil, fmt.Errorf("packing question: %w", err)
	}
	if tcp {
		return e.overTCP(ctx, to, asked, wire)
	}
	reply, err := e.overUDP(ctx, to, asked, wire)
	if err != nil || !reply.Truncated {
		return reply, err
	}
	if whole, err := e.overTCP(ctx, to, asked, wire); err == nil {
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
func (e *exchanger) overUDP(ctx context.Context, to netip.AddrPort, asked *dns.Msg, wire []byte) (*dns.Msg, error) {
	conn, err := dial(ctx, "udp", to)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is buffered
	if _, err := conn.Write(wire); err != nil {
		return nil, fmt.Errorf("sending: %w", err)
	}
	buf := make([]byte, maxUDPRequest)
	for {
		n, err := conn.Read(buf)
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

// overTCP asks over a connection of its own.
func (e *exchanger) overTCP(ctx context.Context, to netip.AddrPort, asked *dns.Msg, wire []byte) (*dns.Msg, error) {
	conn, err := dial(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is buffered
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

// dial connects and binds the connection to ctx.
func dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, to.String())
	if err != nil {
		return nil, err //nolint:wrapcheck // names the operation and the address
	}
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline) // fails on closed connections only
	release := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return &boundConn{Conn: conn, release: release}, nil
}

// boundConn is a connection that ends with a context.
type boundConn struct {
	net.Conn
	release func() bool
}

// Close implements [net.Conn].
func (c *boundConn) Close() error {
	c.release()
	return c.Conn.Close() //nolint:wrapcheck // adds nothing
}

// matching unpacks a reply and checks that it answers the question asked: id,
// name, type and class. An error may come without a question, as some servers
// send it.
func matching(asked *dns.Msg, wire []byte) (*dns.Msg, error) {
	reply := new(dns.Msg)
	if err := reply.Unpack(wire); err != nil {
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
