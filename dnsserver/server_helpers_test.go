package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// patience is how long a test waits for what must come, silence how long for
// what must not.
const (
	patience = 10 * time.Second
	silence  = 150 * time.Millisecond
)

// static answers with the records given, in presentation form; the owner "@"
// stands for the name asked.
func static(t testing.TB, records ...string) dns.Handler {
	t.Helper()
	const self = "the-name-asked."
	parsed := rrs(t, self, records...)
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Authoritative = true
		for _, rr := range parsed {
			if rr = dns.Copy(rr); rr.Header().Name == self {
				rr.Header().Name = r.Question[0].Name
			}
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})
}

// rrs parses records.
func rrs(t testing.TB, owner string, records ...string) []dns.RR {
	t.Helper()
	out := make([]dns.RR, 0, len(records))
	for _, s := range records {
		rr, err := dns.NewRR(strings.Replace(s, "@", owner, 1))
		if err != nil || rr == nil {
			t.Fatalf("parsing record %q: %v", s, err)
		}
		out = append(out, rr)
	}
	return out
}

// configFor serves the zone "." on loopback with no handler yet.
func configFor(listen ...string) Config {
	if len(listen) == 0 {
		listen = []string{"127.0.0.1:0"}
	}
	return Config{Blocks: []Block{{Zones: []string{"."}, Listen: listen, Metrics: true}}, UDPSockets: 2}
}

// startWith starts a server whose zones are answered by h in place of their
// chains; nil leaves the chains.
func startWith(t testing.TB, cfg Config, h dns.Handler) *Server {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if h != nil {
		for _, sv := range s.plan {
			for _, r := range sv.routes {
				r.handler = h
			}
		}
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return s
}

// wait waits for a gate to open, but not beyond the end of the test: a handler
// that did would hold up the end of its server.
func wait(t testing.TB, gate <-chan struct{}) {
	select {
	case <-gate:
	case <-t.Context().Done():
	}
}

// addrOf is the first address of a server.
func addrOf(s *Server) netip.AddrPort { return s.Addrs()[0] }

// dialUDP connects a socket to the server.
func dialUDP(t testing.TB, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// exchangeUDP sends bytes and returns what comes back.
func exchangeUDP(t testing.TB, to netip.AddrPort, req []byte) []byte {
	t.Helper()
	c := dialUDP(t, to)
	if _, err := c.Write(req); err != nil {
		t.Fatal(err)
	}
	return readUDP(t, c)
}

func readUDP(t testing.TB, c *net.UDPConn) []byte {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 65536)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatalf("no reply: %v", err)
	}
	return buf[:n]
}

// tcpClient is a client connection over which tests send frames.
type tcpClient struct {
	*net.TCPConn
	t testing.TB
}

func dialTCP(t testing.TB, to netip.AddrPort) *tcpClient {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &tcpClient{c, t}
}

// frame puts the length in front.
func frame(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)
}

func (c *tcpClient) send(raw []byte) {
	c.t.Helper()
	if _, err := c.Write(raw); err != nil {
		c.t.Fatalf("sending: %v", err)
	}
}

// recv reads one framed message.
func (c *tcpClient) recv() []byte {
	c.t.Helper()
	var prefix [2]byte
	if _, err := io.ReadFull(c, prefix[:]); err != nil {
		c.t.Fatalf("reading length: %v", err)
	}
	msg := make([]byte, binary.BigEndian.Uint16(prefix[:]))
	if _, err := io.ReadFull(c, msg); err != nil {
		c.t.Fatalf("reading message: %v", err)
	}
	return msg
}

// wantEOF checks that the server ends the connection, and properly.
func (c *tcpClient) wantEOF() {
	c.t.Helper()
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		c.t.Fatalf("read %d octets, error %v; want end of connection", n, err)
	}
}

// askFor makes a request.
func askFor(name string, qtype uint16, with ...func(*dns.Msg)) *dns.Msg {
	m := new(dns.Msg).SetQuestion(name, qtype)
	for _, f := range with {
		f(m)
	}
	return m
}

func edns(size uint16, do bool) func(*dns.Msg) {
	return func(m *dns.Msg) { m.SetEdns0(size, do) }
}

func pack(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unpack(t testing.TB, b []byte) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		t.Fatalf("reply %x: %v", b, err)
	}
	return m
}

// queryUDP asks over UDP.
func queryUDP(t testing.TB, to netip.AddrPort, m *dns.Msg) *dns.Msg {
	t.Helper()
	return unpack(t, exchangeUDP(t, to, pack(t, m)))
}

// queryTCP asks over a TCP connection of its own.
func queryTCP(t testing.TB, to netip.AddrPort, m *dns.Msg) *dns.Msg {
	t.Helper()
	c := dialTCP(t, to)
	c.send(frame(pack(t, m)))
	return unpack(t, c.recv())
}
