package dnsserver

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// scrub takes records out of an upstream's reply that don't belong to its
// question, and returns how many. A resolver that is lied to, or lies, must
// not get to say anything about names that nobody asked for (RFC 5452 6).
//
//   - Answer: the name asked for, and the names that aliases lead to.
//   - Authority: zones above those names, and what proves that something
//     isn't there.
//   - Additional: addresses of names that the other sections mention.
func scrub(m *dns.Msg) int {
	if len(m.Question) != 1 {
		return 0
	}
	before := len(m.Answer) + len(m.Ns) + len(m.Extra)
	b := bailiwick{names: map[string]bool{dns.CanonicalName(m.Question[0].Name): true}}
	m.Answer = b.chain(m.Answer)
	m.Ns = b.authority(m.Ns)
	b.mention(m.Answer)
	b.mention(m.Ns)
	m.Extra = slices.DeleteFunc(m.Extra, func(rr dns.RR) bool {
		return rr.Header().Rrtype != dns.TypeOPT && !b.names[dns.CanonicalName(rr.Header().Name)]
	})
	return before - len(m.Answer) - len(m.Ns) - len(m.Extra)
}

// bailiwick is the set of names that a reply may speak of.
type bailiwick struct{ names map[string]bool }

// chain keeps the records of the names asked for, aliases in any order. Each
// round finds the next name of the chain.
func (b *bailiwick) chain(rrs []dns.RR) []dns.RR {
	for grown := true; grown; {
		grown = false
		for _, rr := range rrs {
			if t := b.leadsTo(rr); t != "" && !b.names[t] {
				b.names[t], grown = true, true
			}
		}
	}
	return slices.DeleteFunc(rrs, func(rr dns.RR) bool {
		owner := dns.CanonicalName(rr.Header().Name)
		return !b.names[owner] && (!isDNAME(rr) || !b.below(owner))
	})
}

// leadsTo is the name that an alias of the chain points at.
func (b *bailiwick) leadsTo(rr dns.RR) string {
	if c, ok := rr.(*dns.CNAME); ok && b.names[dns.CanonicalName(c.Hdr.Name)] {
		return dns.CanonicalName(c.Target)
	}
	return ""
}

// isDNAME reports whether a record, or a signature over one, renames what is
// below its owner.
func isDNAME(rr dns.RR) bool {
	sig, ok := rr.(*dns.RRSIG)
	return rr.Header().Rrtype == dns.TypeDNAME || ok && sig.TypeCovered == dns.TypeDNAME
}

// below reports whether one of the names is at or below a zone.
func (b *bailiwick) below(zone string) bool {
	for name := range b.names {
		if dns.IsSubDomain(zone, name) {
			return true
		}
	}
	return false
}

// authority keeps the records of zones that hold one of the names, and DNSSEC
// records of names in such a zone.
func (b *bailiwick) authority(rrs []dns.RR) []dns.RR {
	var zones []string
	for _, rr := range rrs {
		switch rr.Header().Rrtype {
		case dns.TypeSOA, dns.TypeNS:
			if zone := dns.CanonicalName(rr.Header().Name); b.below(zone) {
				zones = append(zones, zone)
			}
		}
	}
	return slices.DeleteFunc(rrs, func(rr dns.RR) bool {
		owner := dns.CanonicalName(rr.Header().Name)
		switch rr.Header().Rrtype {
		case dns.TypeNSEC, dns.TypeNSEC3, dns.TypeRRSIG, dns.TypeDS:
			return !b.below(owner) && !within(owner, zones)
		}
		return !b.below(owner)
	})
}

// mention adds the names in the data of records whose addresses belong to the
// answer.
func (b *bailiwick) mention(rrs []dns.RR) {
	for _, rr := range rrs {
		var name string
		switch v := rr.(type) {
		case *dns.NS:
			name = v.Ns
		case *dns.MX:
			name = v.Mx
		case *dns.SRV:
			name = v.Target
		case *dns.SVCB:
			name = v.Target
		case *dns.HTTPS:
			name = v.Target
		case *dns.NAPTR:
			name = v.Replacement
		case *dns.SOA:
			name = v.Ns
		}
		if name != "" {
			b.names[strings.ToLower(dns.Fqdn(name))] = true
		}
	}
}
