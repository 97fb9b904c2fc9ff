package dnsserver

import (
	"net/netip"

	"github.com/miekg/dns"
)

// claim notes who answers a query, for handlers that only sometimes do.
func claim(w dns.ResponseWriter, who answerer) {
	if q := queryOf(w); q != nil {
		q.handler = who
	}
}

// anyTTL is the number of the RFC, as in CoreDNS.
const anyTTL = 8482

// minimalANY answers every query for ANY with one record that says why
// (RFC 8482 4.2, CoreDNS's "any").
func minimalANY(next dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		q := r.Question[0]
		if q.Qtype != dns.TypeANY {
			next.ServeDNS(w, r)
			return
		}
		claim(w, answeredByAny)
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{&dns.HINFO{
			Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeHINFO, Class: q.Qclass, Ttl: anyTTL},
			Cpu: "ANY obsoleted", Os: "See RFC 8482",
		}}
		reply(w, m)
	})
}

// minimalReplies leaves the authority and additional sections out where nobody
// needs them: beside an answer (CoreDNS's "minimal"). Referrals and negative
// answers, which mean something by their authority section, keep it.
func minimalReplies(next dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		next.ServeDNS(&minimizer{wrapped{w}}, r)
	})
}

// minimizer is the response writer of minimalReplies.
type minimizer struct{ wrapped }

// WriteMsg implements [dns.ResponseWriter].
func (m *minimizer) WriteMsg(msg *dns.Msg) error {
	if msg.Rcode == dns.RcodeSuccess && len(msg.Answer) > 0 && !hasSOA(msg.Ns) {
		short := *msg
		short.Ns, short.Extra = nil, nil
		msg = &short
	}
	return m.ResponseWriter.WriteMsg(msg) //nolint:wrapcheck // only passes by
}

// hasSOA reports whether an authority section makes an answer with aliases a
// negative one (RFC 2308 2.2).
func hasSOA(rrs []dns.RR) bool {
	for _, rr := range rrs {
		if rr.Header().Rrtype == dns.TypeSOA {
			return true
		}
	}
	return false
}

// whoami tells clients their own address, port and transport, in the additional
// section (CoreDNS's "whoami"). It answers every name.
func whoami(dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		q := r.Question[0]
		m := new(dns.Msg).SetReply(r)
		m.Authoritative = true
		from := clientOf(w)
		m.Extra = ipRecord(dns.RR_Header{Name: q.Name, Class: q.Qclass}, from.Addr())
		owner := "_" + protoOf(w).String() + "."
		if q.Name != "." {
			owner += q.Name
		}
		m.Extra = append(m.Extra, &dns.SRV{
			Hdr:  dns.RR_Header{Name: owner, Rrtype: dns.TypeSRV, Class: q.Qclass},
			Port: from.Port(), Target: ".",
		})
		reply(w, m)
	})
}

// clientOf is the address that a query came from, in its own family.
func clientOf(w dns.ResponseWriter) netip.AddrPort {
	if q := queryOf(w); q != nil {
		a := q.client.remote()
		return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
	}
	a, err := netip.ParseAddrPort(w.RemoteAddr().String())
	if err != nil {
		return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// protoOf is the transport that a query came over.
func protoOf(w dns.ResponseWriter) proto {
	if q := queryOf(w); q != nil {
		return q.proto
	}
	return protoUDP
}
