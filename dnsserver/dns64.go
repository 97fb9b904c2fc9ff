package dnsserver

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// DNS64Config is CoreDNS's "dns64": who asks for IPv6 addresses of a name that
// has IPv4 ones only gets those, embedded in a prefix that a NAT64 gateway
// serves (RFC 6147, F5).
type DNS64Config struct {
	// Prefix is an IPv6 network of 32, 40, 48, 56, 64 or 96 bits (RFC 6052
	// 2.2); zero: 64:ff9b::/96.
	Prefix netip.Prefix
	// TranslateAll embeds IPv4 addresses even if there are IPv6 ones, and then
	// instead of them.
	TranslateAll bool
	// AllowIPv4 does it for queries over IPv4 as well.
	AllowIPv4 bool
}

var wellKnownPrefix = netip.MustParsePrefix("64:ff9b::/96")

// unusableIPv6 are addresses that no answer should have and that count as none
// (RFC 6147 5.1.4).
var unusableIPv6 = netip.MustParsePrefix("::ffff:0:0/96")

// dns64 makes the link.
func (s *Server) dns64(cfg *DNS64Config) (middleware, error) {
	if cfg == nil {
		return nil, nil
	}
	prefix := cfg.Prefix
	if prefix == (netip.Prefix{}) {
		prefix = wellKnownPrefix
	}
	if !prefix.Addr().Is6() || prefix.Addr().Is4In6() || !slices.Contains([]int{32, 40, 48, 56, 64, 96}, prefix.Bits()) {
		return nil, fmt.Errorf("dns64: prefix %q: must be an IPv6 network of 32, 40, 48, 56, 64 or 96 bits", prefix)
	}
	t := translator{prefix: prefix.Masked(), all: cfg.TranslateAll, metrics: s.metrics.links}
	return func(next dns.Handler) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			q := r.Question[0]
			asks := q.Qtype == dns.TypeAAAA && q.Qclass == dns.ClassINET
			if !asks || !cfg.AllowIPv4 && clientOf(w).Addr().Is4() {
				next.ServeDNS(w, r)
				return
			}
			t.serve(w, r, next)
		})
	}, nil
}

// translator makes IPv6 addresses of IPv4 ones.
type translator struct {
	prefix  netip.Prefix
	all     bool
	metrics *linkMetrics
}

// serve asks for the IPv6 addresses, and if there are none for those of IPv4.
func (t translator) serve(w dns.ResponseWriter, r *dns.Msg, next dns.Handler) {
	m := askNext(next, w, r)
	if m == nil {
		return // nobody is to answer
	}
	if !t.wanted(r, m) {
		reply(w, m)
		return
	}
	ask := r.Copy()
	ask.Question[0].Qtype = dns.TypeA
	got := askNext(next, w, ask)
	if got == nil || got.Rcode != dns.RcodeSuccess || !hasType(got.Answer, dns.TypeA) {
		reply(w, m) // no more than there was
		return
	}
	server := queryOf(w).serverLabel()
	t.metrics.dns64.WithLabelValues(server).Inc()
	reply(w, t.translate(r, m, got))
}

// wanted reports whether a reply leaves the client without IPv6 addresses. A
// name that doesn't exist has no IPv4 ones either (RFC 6147 5.1.2); a client
// that validates would take ours for forged (5.5).
func (t translator) wanted(r, m *dns.Msg) bool {
	validates := r.CheckingDisabled && r.IsEdns0() != nil && r.IsEdns0().Do()
	if m.Rcode == dns.RcodeNameError || validates {
		return false
	}
	return t.all || !slices.ContainsFunc(m.Answer, func(rr dns.RR) bool {
		aaaa, ok := rr.(*dns.AAAA)
		if !ok {
			return false
		}
		a, ok := netip.AddrFromSlice(aaaa.AAAA)
		return ok && !unusableIPv6.Contains(a) && !a.Is4In6()
	})
}

func hasType(rrs []dns.RR, t uint16) bool {
	return slices.ContainsFunc(rrs, func(rr dns.RR) bool { return rr.Header().Rrtype == t })
}

// translate makes the reply. Its TTL is at most that of the SOA that said that
// there is no IPv6 address (5.1.7).
func (t translator) translate(r, none, got *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	m.Authoritative, m.Truncated = got.Authoritative, got.Truncated
	most := negativeTTL(none)
	for _, rr := range got.Answer {
		rr = dns.Copy(rr)
		if a, ok := rr.(*dns.A); ok {
			addr, ok := netip.AddrFromSlice(a.A)
			if !ok {
				continue
			}
			header := a.Hdr
			header.Ttl = min(header.Ttl, most)
			rr = ipRecord(header, t.embed(addr.Unmap()))[0]
		}
		m.Answer = append(m.Answer, rr)
	}
	return m
}

// negativeTTL is how long a denial may be kept; without SOA ten minutes, by
// RFC 6147 5.1.7.
func negativeTTL(m *dns.Msg) uint32 {
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(soa.Hdr.Ttl, soa.Minttl)
		}
	}
	return 600
}

// embed puts an IPv4 address behind the prefix; octet 8 stays zero (RFC 6052
// 2.2).
func (t translator) embed(a netip.Addr) netip.Addr {
	out, four := t.prefix.Addr().As16(), a.As4()
	at := t.prefix.Bits() / 8
	for _, octet := range four {
		if at == 8 {
			at++
		}
		out[at] = octet
		at++
	}
	return netip.AddrFrom16(out)
}
