package dnsserver

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// many returns n A records of 16 octets each when compressed.
func many(n int) []string {
	records := make([]string, n)
	for i := range records {
		records[i] = fmt.Sprintf("@ 5 IN A 10.0.%d.%d", i/256, i%256)
	}
	return records
}

// TestUDPLimit checks W16 and W19: how large a reply over UDP may be.
func TestUDPLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		max   uint16
		edns  int // the client's size; -1: no OPT
		limit int
	}{
		{"W19 no EDNS", 0, -1, 512},
		{"W16 size 0", 0, 0, 512},
		{"W16 size 511", 0, 511, 512},
		{"W19 size 600", 0, 600, 600},
		{"W19 size 4096 is more than ours", 0, 4096, 1232},
		{"W19 size 65535", 0, 65535, 1232},
		{"W19 configured 4096", 4096, 4096, 4096},
		{"W19 configured 512", 512, 4096, 512},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := configFor()
			cfg.MaxUDPSize = tt.max
			s := startWith(t, cfg, static(t, many(400)...))
			m := askFor("www.example.", dns.TypeA)
			if tt.edns >= 0 {
				m.SetEdns0(uint16(tt.edns), false)
			}
			wire := exchangeUDP(t, addrOf(s), pack(t, m))
			reply := unpack(t, wire)
			if !reply.Truncated || len(wire) > tt.limit || len(wire) <= tt.limit-16 {
				t.Errorf("%d octets, TC %v; want at most %d, full to less than a record, TC", len(wire), reply.Truncated, tt.limit)
			}
			if opt := reply.IsEdns0(); (opt != nil) != (tt.edns >= 0) {
				t.Errorf("W17: OPT %v for a query with OPT %v", opt, tt.edns >= 0)
			} else if opt != nil && opt.UDPSize() != orDefault(tt.max, defaultUDPSize) {
				t.Errorf("W17: OPT size %d, want our own", opt.UDPSize())
			}
		})
	}
}

// TestReplyOPT checks W17 and W18 on the bytes of the record.
func TestReplyOPT(t *testing.T) {
	t.Parallel()
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = rrs(t, "www.example.", "@ 5 IN A 192.0.2.1")
		m.SetEdns0(512, true) // as a careless handler, or an upstream, might
		m.Extra = append(m.Extra, rrs(t, "x.example.", "@ 5 IN A 192.0.2.2")...)
		_ = w.WriteMsg(m)
	})
	s := startWith(t, configFor(), handler)
	const query = "0001 0000 0000 0001" + hexName + hexA
	for _, tt := range []struct{ name, opt, want string }{
		{"W17 plain", hexOPT, "00 0029 04d0 00000000 0000"},
		{"W17 DO copied", "00 0029 1000 00008000 0000", "00 0029 04d0 00008000 0000"},
		{"W17 other flags not copied", "00 0029 1000 0000ffff 0000", "00 0029 04d0 00008000 0000"},
		{"W17 extended rcode of a request ignored", "00 0029 1000 ff000000 0000", "00 0029 04d0 00000000 0000"},
		{"W17 unknown option", "00 0029 1000 00000000 0006 fde9 0002 aabb", "00 0029 04d0 00000000 0000"},
		{"RFC 7828 keepalive means nothing over UDP", "00 0029 1000 00000000 0004 000b 0000", "00 0029 04d0 00000000 0000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := exchangeUDP(t, addrOf(s), raw(hexQuery, query, tt.opt))
			if want := raw(tt.want); !bytes.HasSuffix(got, want) {
				t.Errorf("reply ends in %x, want %x", got[max(0, len(got)-20):], want)
			}
			if n := len(unpack(t, got).Extra); n != 2 {
				t.Errorf("%d additional records, want the handler's and one OPT", n)
			}
		})
	}
}

// TestKeepalive checks the edns-tcp-keepalive option (RFC 7828, W24).
func TestKeepalive(t *testing.T) {
	t.Parallel()
	cfg := configFor()
	cfg.TCP.Idle = 7500 * time.Millisecond
	s := startWith(t, cfg, static(t, "@ 5 IN A 192.0.2.1"))
	m := askFor("www.example.", dns.TypeA, edns(1232, false))
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE}}
	c := dialTCP(t, addrOf(s))
	c.send(frame(pack(t, m)))
	opt := unpack(t, c.recv()).IsEdns0()
	if opt == nil || len(opt.Option) != 1 {
		t.Fatalf("OPT %v, want one option", opt)
	}
	if k, ok := opt.Option[0].(*dns.EDNS0_TCP_KEEPALIVE); !ok || k.Timeout != 75 {
		t.Errorf("option %v, want a timeout of 75 units of 100 ms", opt.Option[0])
	}
}

// TestExtendedRcode checks that an rcode above 15 is told with OPT and is
// SERVFAIL without.
func TestExtendedRcode(t *testing.T) {
	t.Parallel()
	s := startWith(t, configFor(), dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		_ = w.WriteMsg(&dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeBadCookie}})
	}))
	if m := queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA, edns(1232, false))); m.Rcode != dns.RcodeBadCookie {
		t.Errorf("with OPT: rcode %d, want %d", m.Rcode, dns.RcodeBadCookie)
	}
	if m := queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA)); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("without OPT: rcode %d, want SERVFAIL", m.Rcode)
	}
}

// TestLargeRequest checks W21: requests beyond 512 octets are read over UDP,
// and over TCP up to what the length can say.
func TestLargeRequest(t *testing.T) {
	t.Parallel()
	s := startWith(t, configFor(), static(t, "@ 5 IN A 192.0.2.1"))
	padded := func(n int) []byte {
		m := askFor("www.example.", dns.TypeA, edns(1232, false))
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_PADDING{Padding: make([]byte, n-len(pack(t, m))-4)}}
		return pack(t, m)
	}
	for _, n := range []int{513, 1500, 4096} {
		if m := unpack(t, exchangeUDP(t, addrOf(s), padded(n))); len(m.Answer) != 1 {
			t.Errorf("W21 request of %d octets over UDP: %v", n, m)
		}
	}
	if m := unpack(t, exchangeUDP(t, addrOf(s), padded(4097))); m.Rcode != dns.RcodeFormatError {
		t.Errorf("W21 request of 4097 octets over UDP, so cut: rcode %d, want FORMERR", m.Rcode)
	}
	c := dialTCP(t, addrOf(s))
	for _, n := range []int{4097, 65535} {
		c.send(frame(padded(n)))
		if m := unpack(t, c.recv()); len(m.Answer) != 1 {
			t.Errorf("request of %d octets over TCP: %v", n, m)
		}
	}
}
