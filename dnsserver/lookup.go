package dnsserver

import (
	"net/netip"

	"github.com/miekg/dns"
)

// outcome is what a lookup found out about a name.
type outcome uint8

const (
	outside  outcome = iota // the name is in none of the zones
	missing                 // NXDOMAIN: nothing exists at the name or below it (G8)
	empty                   // NODATA: the name exists, the type does not
	answered                // there are records of the type
	alias                   // there is a CNAME, which stands for every type (X4)
	unknown                 // SERVFAIL: the source has yet to say (L2, L3)
)

// result is what a view says about one question. It points at the view's own
// data: making it costs no allocation, and all that a reply still needs is
// copying.
type result struct {
	outcome outcome
	// early: the answer holds even before the source has delivered everything.
	early bool
	zone  *clusterZone // nil when outside
	// rtype is the type of the records: the one that was asked for, but CNAME
	// for an alias and HINFO for ANY.
	rtype uint16

	addrs    []byte      // A, AAAA: octets of the addresses
	addr     netip.Addr  // A, AAAA: the one address, if addrs is empty (pods)
	service  *answers    // SRV, CNAME: whose records they are
	srv      []target    // SRV
	pointers pointerList // PTR; not empty when answered
}

// lookup answers a question. It is pure, takes no lock and does not allocate.
func (v *view) lookup(q *queryName, qtype uint16) result {
	zone := v.conf.zoneOf(q)
	if zone == nil {
		return result{}
	}
	r := v.lookupIn(zone, q, qtype)
	r.zone = zone
	if r.outcome == missing && len(zone.below) > 0 && zone.leadsToZone(q) {
		r.outcome = empty
	}
	if !v.snap.Synced && (!r.early || r.outcome == missing) {
		r.outcome = unknown
	}
	return r
}

// zoneOf returns the closest zone that contains a name, or nil.
func (c *viewConfig) zoneOf(q *queryName) *clusterZone {
	for _, z := range c.zones {
		if z.contains(q) {
			return z
		}
	}
	return nil
}

func (v *view) lookupIn(zone *clusterZone, q *queryName, qtype uint16) result {
	below := q.labels - zone.labels
	switch {
	case below == 0:
		return lookupApex(qtype)
	case zone.reverse:
		return v.lookupReverse(q, qtype)
	}
	switch string(q.label(below - 1)) {
	case "svc":
		return v.lookupServices(zone, q, below, qtype)
	case "pod":
		return v.lookupPods(zone, q, below, qtype)
	case "dns":
		return v.lookupServer(q, below, qtype)
	case "dns-version":
		return lookupVersion(below, qtype)
	default:
		return result{outcome: missing}
	}
}

// lookupApex answers at a zone's own name (T1, T2, T3).
func lookupApex(qtype uint16) result {
	switch qtype {
	case dns.TypeSOA, dns.TypeNS:
		return result{outcome: answered, rtype: qtype, early: true}
	case dns.TypeANY:
		return minimal(true)
	default:
		return result{outcome: empty, early: true}
	}
}

// minimal is the answer to ANY at a name that has records (RFC 8482 §4.2, S15).
func minimal(early bool) result {
	return result{outcome: answered, rtype: dns.TypeHINFO, early: early}
}

// lookupVersion answers dns-version.ZONE (V1, V2, V3).
func lookupVersion(below int, qtype uint16) result {
	switch {
	case below > 1:
		return result{outcome: missing}
	case qtype == dns.TypeTXT:
		return result{outcome: answered, rtype: qtype, early: true}
	case qtype == dns.TypeANY:
		return minimal(true)
	default:
		return result{outcome: empty, early: true}
	}
}

// lookupServer answers dns.ZONE and ns.dns.ZONE (T4, T5).
func (v *view) lookupServer(q *queryName, below int, qtype uint16) result {
	switch {
	case below == 1:
		return result{outcome: empty, early: true}
	case below > 2 || string(q.label(0)) != "ns":
		return result{outcome: missing}
	default:
		return lookupAddrs(v.v4, v.v6, qtype, true)
	}
}

// lookupAddrs answers at a name that has nothing but addresses, of either
// family.
func lookupAddrs(v4, v6 []byte, qtype uint16, early bool) result {
	addrs := v4
	switch qtype {
	case dns.TypeA:
	case dns.TypeAAAA:
		addrs = v6
	case dns.TypeANY:
		if len(v4)+len(v6) > 0 {
			return minimal(early)
		}
	default:
		addrs = nil
	}
	if len(addrs) == 0 {
		return result{outcome: empty, early: early}
	}
	return result{outcome: answered, rtype: qtype, addrs: addrs, early: early}
}

// lookupReverse answers in a reverse zone: PTR at an address that has a name,
// nothing but existence above it (R6, R7).
func (v *view) lookupReverse(q *queryName, qtype uint16) result {
	prefix, ok := parseReverse(q)
	if !ok {
		return result{outcome: missing}
	}
	if !prefix.IsSingleIP() {
		if v.reverse.Covers(prefix) {
			return result{outcome: empty}
		}
		return result{outcome: missing}
	}
	pointers, ok := v.reverse.Get(prefix.Addr())
	switch {
	case !ok:
		return result{outcome: missing}
	case qtype != dns.TypePTR:
		return result{outcome: empty}
	default:
		return result{outcome: answered, rtype: dns.TypePTR, pointers: pointers}
	}
}
