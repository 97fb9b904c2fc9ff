package dnsserver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// gated answers names that begin with "slow" when the gate opens, others at
// once. It tells of each slow query that has come to it.
type gated struct {
	t          testing.TB
	came, gate chan struct{}
	then       dns.Handler
}

func newGated(t testing.TB) *gated {
	return &gated{t: t, came: make(chan struct{}, 1000), gate: make(chan struct{}), then: static(t, "@ 5 IN A 192.0.2.1")}
}

func (g *gated) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	if r.Question[0].Name[:4] == "slow" {
		g.came <- struct{}{}
		wait(g.t, g.gate)
	}
	g.then.ServeDNS(w, r)
}

// TestTCPFraming checks W22.
func TestTCPFraming(t *testing.T) {
	t.Parallel()
	s := startWith(t, configFor(), static(t, "@ 5 IN A 192.0.2.1"))
	query := raw(hexQuery, hexOne, hexName, hexA)

	t.Run("W22 several queries in one write", func(t *testing.T) {
		c := dialTCP(t, addrOf(s))
		var batch []byte
		for id := range byte(50) {
			batch = append(batch, frame(append([]byte{0, id}, query[2:]...))...)
		}
		c.send(batch)
		seen := map[uint16]bool{}
		for range 50 {
			seen[unpack(t, c.recv()).Id] = true
		}
		if len(seen) != 50 {
			t.Errorf("%d different replies, want 50", len(seen))
		}
	})
	t.Run("W22 a query octet by octet", func(t *testing.T) {
		c := dialTCP(t, addrOf(s))
		_ = c.SetNoDelay(true)
		for _, b := range frame(query) {
			c.send([]byte{b})
		}
		if m := unpack(t, c.recv()); len(m.Answer) != 1 {
			t.Errorf("reply %v", m)
		}
	})
	for name, bytes := range map[string][]byte{
		"W22 length 0":                   {0, 0},
		"W22 length 11":                  append([]byte{0, 11}, query...),
		"W22 junk frame":                 frame([]byte("GET / HTTP/1.1\r\n")),
		"W22 cut frame, then end":        {0, 40, 1, 2, 3},
		"W22 half a length, then end":    {0},
		"W22 connection without queries": nil,
	} {
		t.Run(name, func(t *testing.T) {
			c := dialTCP(t, addrOf(s))
			c.send(bytes)
			_ = c.CloseWrite()
			for { // an error reply may come before the end
				if _, err := c.Read(make([]byte, 64)); err != nil {
					if errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("connection stays open")
					}
					return
				}
			}
		})
	}
	t.Run("W22 what came before junk is answered", func(t *testing.T) {
		c := dialTCP(t, addrOf(s))
		c.send(append(frame(query), 0, 0))
		if m := unpack(t, c.recv()); len(m.Answer) != 1 {
			t.Errorf("reply %v", m)
		}
		c.wantEOF()
	})
}

// TestTCPOutOfOrder checks W23: a slow query doesn't hold up others of its
// connection.
func TestTCPOutOfOrder(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	s := startWith(t, configFor(), g)
	c := dialTCP(t, addrOf(s))
	slow, fast := askFor("slow.example.", dns.TypeA), askFor("fast.example.", dns.TypeA)
	c.send(append(frame(pack(t, slow)), frame(pack(t, fast))...))
	if m := unpack(t, c.recv()); m.Id != fast.Id || m.Question[0].Name != "fast.example." {
		t.Fatalf("W23: first reply is %v, want the fast one", m.Question[0])
	}
	close(g.gate)
	if m := unpack(t, c.recv()); m.Id != slow.Id {
		t.Errorf("second reply is %v, want the slow one", m.Question[0])
	}
}

// TestTCPPipelineLimit checks that a connection with too many queries in flight
// is read no further, and goes on afterwards.
func TestTCPPipelineLimit(t *testing.T) {
	t.Parallel()
	cfg := configFor()
	cfg.TCP.MaxPipelined = 2
	g := newGated(t)
	s := startWith(t, cfg, g)
	c := dialTCP(t, addrOf(s))
	for range 3 {
		c.send(frame(pack(t, askFor("slow.example.", dns.TypeA))))
	}
	<-g.came
	<-g.came
	select {
	case <-g.came:
		t.Error("a third query is being answered, limit 2")
	case <-time.After(silence):
	}
	close(g.gate)
	for range 3 {
		c.recv()
	}
}

// TestTCPIdle checks W24: a silent connection is ended properly, one that
// waits for its answer isn't.
func TestTCPIdle(t *testing.T) {
	t.Parallel()
	cfg := configFor()
	cfg.TCP.Idle = 100 * time.Millisecond
	g := newGated(t)
	s := startWith(t, cfg, g)

	t.Run("W24 silent from the start", func(t *testing.T) { dialTCP(t, addrOf(s)).wantEOF() })
	t.Run("W24 a query that never ends", func(t *testing.T) {
		c := dialTCP(t, addrOf(s))
		c.send([]byte{0, 40, 1, 2, 3})
		c.wantEOF()
	})
	t.Run("W24 waiting for an answer isn't idle", func(t *testing.T) {
		c := dialTCP(t, addrOf(s))
		c.send(frame(pack(t, askFor("slow.example.", dns.TypeA))))
		<-g.came
		_ = c.SetReadDeadline(time.Now().Add(4 * cfg.TCP.Idle))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection ended with its query in flight: %v", err)
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		close(g.gate)
		c.recv()
		c.wantEOF()
	})
}

// TestTCPLimits checks W24: connections of a client and in all.
func TestTCPLimits(t *testing.T) {
	t.Parallel()
	query := func(t *testing.T) []byte { return frame(pack(t, askFor("www.example.", dns.TypeA))) }
	dialFrom := func(t *testing.T, s *Server, from string) *tcpClient {
		c, err := net.DialTCP("tcp", &net.TCPAddr{IP: net.ParseIP(from)}, net.TCPAddrFromAddrPort(addrOf(s)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		return &tcpClient{c, t}
	}
	for _, tt := range []struct {
		name    string
		limits  TCPConfig
		admits  [3]bool // two connections from one client, one from another
		dropped float64
	}{
		{"W24 per client", TCPConfig{MaxClientConns: 1}, [3]bool{true, false, true}, 1},
		{"W24 in all", TCPConfig{MaxConns: 1}, [3]bool{true, false, false}, 2},
		{"W24 enough for everyone", TCPConfig{}, [3]bool{true, true, true}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := configFor()
			cfg.TCP = tt.limits
			s := startWith(t, cfg, static(t, "@ 5 IN A 192.0.2.1"))
			for i, from := range []string{"127.0.0.1", "127.0.0.1", "127.0.0.2"} {
				c := dialFrom(t, s, from)
				_, _ = c.Write(query(t))
				_, err := c.Read(make([]byte, 512))
				if (err == nil) != tt.admits[i] {
					t.Errorf("connection %d from %s: %v, want admitted %v", i, from, err, tt.admits[i])
				}
			}
			if n := testutil.ToFloat64(s.metrics.dropChildren[dropConns]); n != tt.dropped {
				t.Errorf("%v connections dropped, want %v", n, tt.dropped)
			}
		})
	}
	t.Run("W24 a place is free again", func(t *testing.T) {
		t.Parallel()
		cfg := configFor()
		cfg.TCP.MaxConns = 1
		s := startWith(t, cfg, static(t, "@ 5 IN A 192.0.2.1"))
		for range 20 {
			c := dialFrom(t, s, "127.0.0.1")
			c.send(query(t))
			c.recv()
			_ = c.CloseWrite()
			c.wantEOF() // the server has let go
			waitConns(t, s, 0)
		}
	})
}

// waitConns waits until the server has n connections.
func waitConns(t *testing.T, s *Server, n int) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		conns := 0
		for _, l := range s.listeners {
			l.tcp.mu.Lock()
			conns += len(l.tcp.conns)
			l.tcp.mu.Unlock()
		}
		if conns == n {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d connections, want %d", conns, n)
		case <-tick.C:
		}
	}
}

// TestTCPSlowReader checks that a client which doesn't read costs only its own
// connection.
func TestTCPSlowReader(t *testing.T) {
	t.Parallel()
	cfg := configFor()
	cfg.TCP.Write = 50 * time.Millisecond
	// Few large records: the replies are to be costly for the connection, not
	// to make.
	text := strings.Repeat(`"`+strings.Repeat("x", 250)+`" `, 4)
	records := make([]string, 60)
	for i := range records {
		records[i] = fmt.Sprintf(`@ 5 IN TXT "%d" %s`, i, text)
	}
	s := startWith(t, cfg, static(t, records...))
	c := dialTCP(t, addrOf(s))
	_ = c.SetReadBuffer(4096)
	query := frame(pack(t, askFor("www.example.", dns.TypeTXT)))
	for range 1000 { // 60 MB of replies
		if _, err := c.Write(query); err != nil {
			break
		}
	}
	waitConns(t, s, 0)
	if m := queryUDP(t, addrOf(s), askFor("www.example.", dns.TypeTXT)); !m.Truncated {
		t.Errorf("server doesn't answer others: %v", m)
	}
}

// TestLocalAddr checks that handlers see both ends of a connection.
func TestLocalAddr(t *testing.T) {
	t.Parallel()
	got := make(chan [2]net.Addr, 1)
	answer := static(t, "@ 5 IN A 192.0.2.1")
	s := startWith(t, configFor(), dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		got <- [2]net.Addr{w.LocalAddr(), w.RemoteAddr()}
		answer.ServeDNS(w, r)
	}))
	c := dialTCP(t, addrOf(s))
	c.send(frame(pack(t, askFor("a.example.", dns.TypeA))))
	c.recv()
	if ends := <-got; ends[0].String() != c.RemoteAddr().String() || ends[1].String() != c.LocalAddr().String() {
		t.Errorf("ends %v, want those of the client swapped", ends)
	}
	u := dialUDP(t, addrOf(s))
	_, _ = u.Write(pack(t, askFor("a.example.", dns.TypeA)))
	readUDP(t, u)
	if ends := <-got; ends[0].String() != netip.AddrPort.String(addrOf(s)) || ends[1].String() != u.LocalAddr().String() {
		t.Errorf("ends %v, want those of the client swapped", ends)
	}
}
