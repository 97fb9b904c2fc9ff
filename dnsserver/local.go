package dnsserver

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// LocalConfig is CoreDNS's "local": names that are about the asking machine
// alone are answered here and never forwarded (RFC 6303, RFC 6761 6.3).
type LocalConfig struct {
	// NoPrefix turns off the answers to localhost.DOMAIN, which resolvers with
	// a search path ask for; on by default as in CoreDNS.
	NoPrefix bool
}

// localZones are those zones.
var localZones = []string{"localhost.", "0.in-addr.arpa.", "127.in-addr.arpa.", "255.in-addr.arpa."}

// localTTL is a week: these answers never change.
const localTTL = 604800

// local answers for localhost.
func (s *Server) local(cfg *LocalConfig) middleware {
	if cfg == nil {
		return nil
	}
	return func(next dns.Handler) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			q := r.Question[0]
			name := strings.ToLower(q.Name)
			zone, ok := closestZone(name, localZones)
			if !cfg.NoPrefix && name != "localhost." && strings.HasPrefix(name, "localhost.") {
				zone, ok = name, true
			}
			if !ok || q.Qclass != dns.ClassINET {
				next.ServeDNS(w, r)
				return
			}
			claim(w, answeredByLocal)
			if name != "localhost." && isHost(zone, name) {
				s.metrics.links.local.Inc()
			}
			reply(w, localReply(r, zone, name))
		})
	}
}

// localReply answers a name in one of the zones, or one that begins with
// localhost, which then is a zone of its own.
func localReply(r *dns.Msg, zone, name string) *dns.Msg {
	q := r.Question[0]
	m := new(dns.Msg).SetReply(r)
	m.Authoritative = true
	header := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: localTTL}
	host := isHost(zone, name)
	apex := name == zone && slices.Contains(localZones, zone)
	switch {
	case host && q.Qtype == dns.TypeA:
		m.Answer = ipRecord(header, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case host && q.Qtype == dns.TypeAAAA:
		m.Answer = ipRecord(header, netip.IPv6Loopback())
	case name == "1.0.0.127.in-addr.arpa." && q.Qtype == dns.TypePTR:
		m.Answer = []dns.RR{&dns.PTR{Hdr: header, Ptr: "localhost."}}
	case apex && q.Qtype == dns.TypeNS:
		m.Answer = []dns.RR{&dns.NS{Hdr: header, Ns: "localhost."}}
	case apex && q.Qtype == dns.TypeSOA:
		m.Answer = []dns.RR{localSOA(q.Name)}
	default:
		m.Ns = []dns.RR{localSOA(zone)}
		if !host && !apex && !strings.HasSuffix(".1.0.0.127.in-addr.arpa.", "."+name) { // RFC 8020: names above PTR exist
			m.Rcode = dns.RcodeNameError
		}
	}
	return m
}

// isHost reports whether the name stands for this machine.
func isHost(zone, name string) bool {
	return zone == "localhost." || strings.HasPrefix(name, "localhost.")
}

// localSOA is the SOA record of such a zone.
func localSOA(zone string) dns.RR {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: localTTL},
		Ns:  "localhost.", Mbox: "root.localhost.", Serial: 1, Minttl: localTTL,
	}
}

// ipRecord makes the A or AAAA record of an address.
func ipRecord(header dns.RR_Header, a netip.Addr) []dns.RR {
	if a.Is4() {
		header.Rrtype = dns.TypeA
		return []dns.RR{&dns.A{Hdr: header, A: a.AsSlice()}}
	}
	header.Rrtype = dns.TypeAAAA
	return []dns.RR{&dns.AAAA{Hdr: header, AAAA: a.AsSlice()}}
}
