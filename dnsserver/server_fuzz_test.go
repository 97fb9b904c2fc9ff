package dnsserver

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// captured is a client that keeps what it is sent.
type captured struct{ replies [][]byte }

func (c *captured) send(b []byte) error {
	c.replies = append(c.replies, append([]byte(nil), b...))
	return nil
}
func (captured) local() netip.AddrPort  { return netip.MustParseAddrPort("127.0.0.1:53") }
func (captured) remote() netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:5353") }

// process runs a request through everything but the sockets.
func process(s *Server, p proto, req []byte) [][]byte {
	c := &captured{}
	sv := s.plan["127.0.0.1:0"]
	in, v := s.screen(sv, c, p, req, make([]byte, maxUDPRequest))
	if v == accept {
		s.serve(&query{serving: sv, proto: p, in: in, raw: req, client: c})
	}
	return c.replies
}

// FuzzPacket puts any bytes into the server: no panic, at most one reply, and
// that a valid one which fits and answers the request.
func FuzzPacket(f *testing.F) {
	cfg := configFor()
	s, err := New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	// The largest answer, with everything in it, to whatever is asked.
	s.plan["127.0.0.1:0"].routes["."].handler = refuseTransfer(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		owner := r.Question[0].Name
		for i := range 90 {
			h := dns.RR_Header{Name: owner, Rrtype: dns.TypeSRV, Class: dns.ClassINET, Ttl: 5}
			m.Answer = append(m.Answer, &dns.SRV{Hdr: h, Port: uint16(i), Target: owner})
			h.Rrtype = dns.TypeA
			m.Extra = append(m.Extra, &dns.A{Hdr: h, A: []byte{192, 0, 2, byte(i)}})
		}
		m.Ns = []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeNS, Class: dns.ClassINET}, Ns: owner}}
		_ = w.WriteMsg(m)
	}))
	for _, seed := range []string{
		"", hexQuery, hexQuery + hexOne + hexName + hexA, hexQuery + hexOPT1 + hexName + hexA + hexOPT,
		hexQuery + hexOne + "c00c" + hexA, hexQuery + "0001 0001 0001 0002" + hexName + hexA + "c00c 0001 0001 00000000 0004 01020304",
		hexQuery + hexOne + hexName + "00fc 0001", hexQuery + "0001 0000 0001 0001" + hexName + "00fb 0001" +
			"c00c 0006 0001 00000000 0018 c00c c00c 00000001 00000001 00000001 00000001 00000001" + hexOPT,
		hexQuery + hexOPT1 + hexName + hexA + "00 0029 0000 00ff8000 0006 000a 0002 0102",
		hexQuery + hexOPT1 + hexName + hexA + "00 00fa 00ff 00000000 0000",
	} {
		f.Add(raw(seed), false)
		f.Add(raw(seed), true)
	}
	f.Fuzz(func(t *testing.T, req []byte, tcp bool) {
		p := protoUDP
		if tcp {
			p = protoTCP
		}
		replies := process(s, p, req)
		if len(replies) > 1 {
			t.Fatalf("%d replies", len(replies))
		}
		for _, wire := range replies {
			checkFuzzed(t, req, wire, tcp)
		}
	})
}

// checkFuzzed checks one reply against its request.
func checkFuzzed(t *testing.T, req, wire []byte, tcp bool) {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Fatalf("request %x: reply %x: %v", req, wire, err)
	}
	if repacked := m.Len(); repacked < 12 {
		t.Fatalf("reply of %d octets", repacked)
	}
	if !m.Response || m.Id != uint16(req[0])<<8|uint16(req[1]) || m.Zero {
		t.Errorf("header %x for request %x", wire[:4], req[:4])
	}
	limit := maxTCPSize
	if !tcp {
		limit = minUDPSize
		if in, _ := inspect(req); in.edns.present {
			limit = in.edns.udpLimit(defaultUDPSize)
		}
	}
	if len(wire) > limit {
		t.Errorf("reply of %d octets, limit %d", len(wire), limit)
	}
	if m.Rcode == dns.RcodeSuccess && len(m.Answer) < 90 && !m.Truncated {
		t.Errorf("answers are missing without TC: %d", len(m.Answer))
	}
}
