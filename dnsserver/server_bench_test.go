package dnsserver

import (
	"net"
	"testing"

	"github.com/miekg/dns"
)

// constantAnswer answers everything with one shared record set.
func constantAnswer(b *testing.B) dns.Handler {
	answer := rrs(b, "svc1.testns.svc.cluster.local.", "@ 5 IN A 10.96.0.11")
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = answer
		_ = w.WriteMsg(m)
	})
}

// BenchmarkServe is one query without sockets: the cost of the dns.Msg path
// around a handler.
func BenchmarkServe(b *testing.B) {
	s, err := New(configFor())
	if err != nil {
		b.Fatal(err)
	}
	s.plan["127.0.0.1:0"].routes["."].handler = constantAnswer(b)
	req := pack(b, askFor("svc1.testns.svc.cluster.local.", dns.TypeA, edns(1232, false)))
	sink := discarding{}
	sv := s.plan["127.0.0.1:0"]
	buf := make([]byte, maxUDPRequest)
	b.ReportAllocs()
	for b.Loop() {
		in, v := s.screen(sv, sink, protoUDP, req, buf)
		if v != accept {
			b.Fatal("not accepted")
		}
		s.serve(&query{serving: sv, in: in, raw: req, client: sink})
	}
}

// discarding is a client that nothing reaches.
type discarding struct{ captured }

func (discarding) send([]byte) error { return nil }

// BenchmarkReject is a malformed request: what a flood of junk costs each.
func BenchmarkReject(b *testing.B) {
	s, err := New(configFor())
	if err != nil {
		b.Fatal(err)
	}
	req := raw(hexQuery, hexOne, "c00c", hexA)
	sv, buf := s.plan["127.0.0.1:0"], make([]byte, maxUDPRequest)
	var sink client = discarding{}
	b.ReportAllocs()
	for b.Loop() {
		s.screen(sv, sink, protoUDP, req, buf)
	}
}

// BenchmarkUDP is a constant answer through the sockets, with the client on
// the same cores: several queries in flight for each of them.
func BenchmarkUDP(b *testing.B) {
	s := startWith(b, configFor(), constantAnswer(b))
	req := pack(b, askFor("svc1.testns.svc.cluster.local.", dns.TypeA))
	b.SetParallelism(4)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(addrOf(s)))
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		const window = 16
		buf := make([]byte, 512)
		inFlight := 0
		for pb.Next() {
			if inFlight == window {
				if _, err := c.Read(buf); err != nil {
					b.Error(err)
				}
				inFlight--
			}
			if _, err := c.Write(req); err != nil {
				b.Error(err)
			}
			inFlight++
		}
		for range inFlight {
			if _, err := c.Read(buf); err != nil {
				b.Error(err)
			}
		}
	})
}
