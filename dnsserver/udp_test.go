package dnsserver

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"
)

// TestReplySource checks W26: the reply comes from the address that was asked,
// whichever of the machine's addresses that is.
func TestReplySource(t *testing.T) {
	t.Parallel()
	locals := make(chan string, 1)
	answer := static(t, "@ 5 IN A 192.0.2.1")
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		locals <- w.LocalAddr().(*net.UDPAddr).AddrPort().Addr().String()
		answer.ServeDNS(w, r)
	})
	for _, tt := range []struct {
		name, listen string
		ask          []string
	}{
		{"W26 both families", ":0", []string{"127.0.0.1", "127.0.0.2", "127.9.8.7", "::1"}},
		{"W26 all of IPv4", "0.0.0.0:0", []string{"127.0.0.1", "127.0.0.2", "127.9.8.7"}},
		{"W26 all of IPv6", "[::]:0", []string{"::1"}},
		{"W26 one address", "127.0.0.2:0", []string{"127.0.0.2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startWith(t, configFor(tt.listen), handler)
			for _, addr := range tt.ask {
				// An unconnected socket takes replies from anywhere, and tells where from.
				conn, err := net.ListenUDP("udp", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				to := netip.AddrPortFrom(netip.MustParseAddr(addr), addrOf(s).Port())
				if _, err := conn.WriteToUDPAddrPort(pack(t, askFor("a.example.", dns.TypeA)), to); err != nil {
					t.Fatal(err)
				}
				_ = conn.SetReadDeadline(time.Now().Add(patience))
				_, from, err := conn.ReadFromUDPAddrPort(make([]byte, 512))
				if err != nil {
					t.Fatalf("asking %s: %v", to, err)
				}
				if from := netip.AddrPortFrom(from.Addr().Unmap(), from.Port()); from != to {
					t.Errorf("asked %s, reply from %s", to, from)
				}
				if local := <-locals; local != addr {
					t.Errorf("asked %s, handler saw %s", addr, local)
				}
			}
		})
	}
}

// TestPacketInfo checks the control messages byte by byte.
func TestPacketInfo(t *testing.T) {
	t.Parallel()
	for _, size := range []int{unix.SizeofInet4Pktinfo, unix.SizeofInet6Pktinfo} {
		if n := unix.CmsgSpace(size); n > oobSize {
			t.Errorf("control message of %d octets, room for %d", n, oobSize)
		}
	}
	if got := replyPacketInfo(nil); got != nil {
		t.Errorf("without a control message: %x", got)
	}
	if got := replyPacketInfo([]byte{1, 2, 3}); got != nil {
		t.Errorf("for junk: %x", got)
	}
	info := &unix.Inet4Pktinfo{Ifindex: 7, Spec_dst: [4]byte{10, 0, 0, 1}, Addr: [4]byte{10, 0, 0, 2}}
	got := replyPacketInfo(unix.PktInfo4(info))
	if a, ok := packetInfoAddr(got); !ok || a.String() != "10.0.0.2" {
		t.Errorf("source %v, want the destination 10.0.0.2", a)
	}
	if got[16]|got[17]|got[18]|got[19] != 0 {
		t.Errorf("interface %x, want none", got[16:20])
	}
	rights := replyPacketInfo(unix.UnixRights(1))
	if rights != nil {
		t.Errorf("for another control message: %x", rights)
	}
}

// TestOverload checks that memory is bounded: beyond MaxQueries in flight,
// queries are dropped and counted, and later ones answered again.
func TestOverload(t *testing.T) {
	t.Parallel()
	cfg := configFor()
	cfg.MaxQueries = 3
	g := newGated(t)
	s := startWith(t, cfg, g)
	c := dialUDP(t, addrOf(s))
	for range 3 {
		_, _ = c.Write(pack(t, askFor("slow.example.", dns.TypeA)))
		<-g.came
	}
	const excess = 20
	for range excess {
		_, _ = c.Write(pack(t, askFor("fast.example.", dns.TypeA)))
	}
	deadline, tick := time.After(patience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for testutil.ToFloat64(s.metrics.dropChildren[dropOverload]) < excess {
		select {
		case <-deadline:
			t.Fatal("queries beyond the limit aren't counted")
		case <-tick.C:
		}
	}
	// TCP clients wait instead.
	tc := dialTCP(t, addrOf(s))
	tc.send(frame(pack(t, askFor("fast.example.", dns.TypeA))))
	close(g.gate)
	if m := unpack(t, tc.recv()); len(m.Answer) != 1 {
		t.Errorf("TCP after overload: %v", m)
	}
	for range 3 {
		readUDP(t, c)
	}
	if m := queryUDP(t, addrOf(s), askFor("fast.example.", dns.TypeA)); len(m.Answer) != 1 {
		t.Errorf("UDP after overload: %v", m)
	}
}

// TestSlots checks that waiters get what is freed, and that resizing takes
// effect.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := newSlots(1)
	if !s.try() || s.try() {
		t.Fatal("one token, not given exactly once")
	}
	const waiters = 50
	done := make(chan bool, waiters)
	for range waiters {
		go func() {
			ok := s.acquire(t.Context())
			if ok {
				s.release()
			}
			done <- ok
		}()
	}
	s.release()
	for range waiters {
		select {
		case ok := <-done:
			if !ok {
				t.Error("acquire gave up")
			}
		case <-time.After(patience):
			t.Fatal("a waiter was forgotten")
		}
	}
	s.resize(3)
	given := 0
	for s.try() {
		given++
	}
	if given != 3 {
		t.Errorf("%d tokens given after resizing to 3", given)
	}
}
