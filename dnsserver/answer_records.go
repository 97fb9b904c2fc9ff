package dnsserver

import (
	"net"
	"slices"

	"github.com/miekg/dns"
)

// TTLs that do not follow the configuration, in seconds.
const (
	versionTTL = 28800 // V1
	minimalTTL = 8482  // RFC 8482's own number
	maxSOATTL  = 300   // G6
)

// The SOA's timers, in seconds (G6).
const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400
)

// The schema versions of dns-version (V1, V4).
const (
	schemaVersion             = "1.1.0"
	multiclusterSchemaVersion = "1.0.0"
)

// recordWriter makes the records of one answer. Names that belong to the zone repeat
// the letters that the owner's zone has (G3).
type recordWriter struct {
	view  *view
	owner string // presentation format
	zone  *clusterZone
}

// records returns the answer's records and what belongs into the additional
// section along with them.
func (w recordWriter) records(r result) (answer, extra []dns.RR) {
	switch r.rtype {
	case dns.TypeA, dns.TypeAAAA:
		return addressRecords(w.header(r.rtype), r.octets()), nil
	case dns.TypeSRV:
		return w.srv(r)
	case dns.TypePTR:
		return w.ptr(r.pointers), nil
	case dns.TypeCNAME:
		return []dns.RR{&dns.CNAME{Hdr: w.header(dns.TypeCNAME), Target: r.service.alias}}, nil
	case dns.TypeSOA:
		return []dns.RR{w.soa()}, nil
	case dns.TypeNS:
		return w.ns()
	case dns.TypeTXT:
		return []dns.RR{w.version()}, nil
	default:
		return []dns.RR{w.minimal()}, nil
	}
}

func (w recordWriter) header(rtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: w.owner, Rrtype: rtype, Class: dns.ClassINET, Ttl: w.view.conf.TTL}
}

// octets returns the addresses as the records hold them, in memory that the
// caller may keep.
func (r result) octets() []byte {
	if r.addr.IsValid() {
		return r.addr.AsSlice()
	}
	return slices.Clone(r.addrs)
}

// addressRecords makes A or AAAA records over the octets, which become theirs.
func addressRecords(h dns.RR_Header, octets []byte) []dns.RR {
	if h.Rrtype == dns.TypeA {
		list := make([]dns.A, len(octets)/net.IPv4len)
		records := make([]dns.RR, len(list))
		for i := range list {
			list[i] = dns.A{Hdr: h, A: octets[4*i : 4*i+4 : 4*i+4]}
			records[i] = &list[i]
		}
		return records
	}
	list := make([]dns.AAAA, len(octets)/net.IPv6len)
	records := make([]dns.RR, len(list))
	for i := range list {
		list[i] = dns.AAAA{Hdr: h, AAAA: octets[16*i : 16*i+16 : 16*i+16]}
		records[i] = &list[i]
	}
	return records
}

// glue makes the address records of a name that other records point at.
func (w recordWriter) glue(name string, v4, v6 []byte) []dns.RR {
	a, aaaa := w.header(dns.TypeA), w.header(dns.TypeAAAA)
	a.Name, aaaa.Name = name, name
	return append(addressRecords(a, slices.Clone(v4)), addressRecords(aaaa, slices.Clone(v6))...)
}

// srv makes SRV records, all of one weight (H11), and once for each target
// its addresses.
func (w recordWriter) srv(r result) (answer, extra []dns.RR) {
	a, suffix := r.service, serviceName(r.service.key)+w.suffix(w.zone)
	weight := uint16(max(1, 100/len(r.srv)))
	name, last := suffix, target{endpoint: itself - 1}
	for _, t := range r.srv {
		if t.endpoint != itself {
			name = a.endpoints[t.endpoint].label + "." + suffix
		}
		if len(name) >= maxNameOctets {
			continue // no query could ask for it
		}
		answer = append(answer, &dns.SRV{Hdr: w.header(dns.TypeSRV), Weight: weight, Port: t.port, Target: name})
		if t.endpoint != last.endpoint {
			v4, v6 := a.targetAddrs(t)
			extra = append(extra, w.glue(name, v4, v6)...)
		}
		last = t
	}
	return answer, extra
}

// ptr makes PTR records in the order of the list (R3).
func (w recordWriter) ptr(list pointerList) []dns.RR {
	suffix := w.suffix(w.zone.parent)
	var records []dns.RR
	best := list[0]
	for list != "" {
		rank, relative, rest := list.next()
		if w.view.conf.PTRHostnameOnly && best == rankHostname && rank != best {
			break
		}
		if name := presentation(relative) + suffix; len(name) < maxNameOctets {
			records = append(records, &dns.PTR{Hdr: w.header(dns.TypePTR), Ptr: name})
		}
		list = rest
	}
	return records
}

// ns makes the zone's NS records and the addresses of their targets (T2).
func (w recordWriter) ns() (answer, extra []dns.RR) {
	parent := w.zone.parent
	for _, server := range w.view.serversOf(parent) {
		name := server.name() + w.suffix(parent)
		answer = append(answer, &dns.NS{Hdr: w.header(dns.TypeNS), Ns: name})
		extra = append(extra, w.glue(name, server.v4, server.v6)...)
	}
	return answer, extra
}

// soa makes the zone's SOA record, also for the authority section of an answer
// about another name of the zone.
func (w recordWriter) soa() dns.RR {
	h := w.header(dns.TypeSOA)
	h.Name, h.Ttl = w.zoneName(), min(w.view.conf.TTL, maxSOATTL)
	parent := w.suffix(w.zone.parent)
	return &dns.SOA{
		Hdr: h, Ns: "ns.dns." + parent, Mbox: "hostmaster." + parent, Serial: w.view.serial,
		Refresh: soaRefresh, Retry: soaRetry, Expire: soaExpire, Minttl: w.view.conf.TTL,
	}
}

func (w recordWriter) version() dns.RR {
	h := w.header(dns.TypeTXT)
	h.Ttl = versionTTL
	version := schemaVersion
	if w.zone.multicluster {
		version = multiclusterSchemaVersion
	}
	return &dns.TXT{Hdr: h, Txt: []string{version}}
}

func (w recordWriter) minimal() dns.RR {
	h := w.header(dns.TypeHINFO)
	h.Ttl = minimalTTL
	return &dns.HINFO{Hdr: h, Cpu: "RFC8482"}
}
