package dnsserver

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// TransferConfig is one of CoreDNS's "transfer" directives: who may have whole
// zones, by AXFR or IXFR over TCP (RFC 5936, RFC 1995), and is told when they
// change (RFC 1996).
type TransferConfig struct {
	// Zones that may be had; empty: those of the block. Only the cluster and
	// reverse zones can be transferred.
	Zones []string
	// To are the addresses of those who may, and where to send notifications;
	// port 0 is 53. Requests may come from any port.
	To []netip.AddrPort
	// ToAll lets everybody have them; nobody is told then but To.
	ToAll bool
	// Source is the address that notifications are sent from; the zero value
	// leaves it to the system.
	Source netip.Addr
}

// allows reports whether a client may have a zone.
func (c *TransferConfig) allows(zone string, from netip.Addr) bool {
	_, within := closestZone(zone, c.Zones)
	return within && (c.ToAll ||
		slices.ContainsFunc(c.To, func(to netip.AddrPort) bool { return to.Addr().Unmap() == from }))
}

// transfer makes the link. Without a rule every transfer is refused (W25).
func (s *Server) transfer(b *Block) (middleware, error) {
	rules, err := transferRules(b)
	if err != nil {
		return nil, err
	}
	t := transferrer{rules: rules, cluster: b.Cluster}
	return func(next dns.Handler) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			switch r.Question[0].Qtype {
			case dns.TypeAXFR, dns.TypeIXFR:
				t.serve(w, r)
			default:
				next.ServeDNS(w, r)
			}
		})
	}, nil
}

// transferRules checks the rules and fills their zones in.
func transferRules(b *Block) ([]TransferConfig, error) {
	rules := slices.Clone(b.Transfers)
	for i := range rules {
		if err := checkZones("transfer", rules[i].Zones); err != nil {
			return nil, err
		}
		if len(rules[i].To) == 0 && !rules[i].ToAll {
			return nil, fmt.Errorf("transfer: nobody to transfer to")
		}
		rules[i].Zones = orZones(rules[i].Zones, b.Zones)
	}
	if len(rules) > 0 && b.Cluster == nil {
		return nil, fmt.Errorf("transfer: must have kubernetes in the same block: nothing else can be transferred")
	}
	return rules, nil
}

// transferrer answers AXFR and IXFR.
type transferrer struct {
	rules   []TransferConfig
	cluster *Cluster
}

// serve sends the zone, or refuses.
func (t *transferrer) serve(w dns.ResponseWriter, r *dns.Msg) {
	zone := dns.CanonicalName(r.Question[0].Name)
	allowed := slices.ContainsFunc(t.rules, func(c TransferConfig) bool { return c.allows(zone, clientOf(w).Addr()) })
	v := t.view(zone)
	if !allowed || v == nil {
		refuse(w, r)
		return
	}
	claim(w, answeredByTransfer)
	if !v.snap.Synced {
		failQuery(w, r, fmt.Errorf("transferring %q: the source has not delivered everything yet", zone))
		return
	}
	soa := v.zoneSOA(zone)
	isUDP := protoOf(w) == protoUDP
	if r.Question[0].Qtype == dns.TypeIXFR && (isUDP || upToDate(r, v.serial)) {
		// All there is to say, or all that fits: who has an older serial comes
		// again over TCP (RFC 1995 2).
		reply(w, axfrMessage(r, []dns.RR{soa}))
		return
	}
	q := queryOf(w)
	if q == nil || q.internal || !streams(q.client) {
		refuse(w, r)
		return
	}
	q.stream(r, v.zoneTransfer(zone, soa))
}

// streams reports whether a client can take several messages for one query.
func streams(c client) bool {
	_, ok := c.(*tcpConn)
	return ok
}

// view is the view to transfer from, nil if the zone isn't served.
func (t *transferrer) view(zone string) *view {
	if t.cluster == nil {
		return nil
	}
	v := t.cluster.view.Load()
	if !slices.ContainsFunc(v.conf.zones, func(z *clusterZone) bool { return z.name == zone }) {
		return nil
	}
	return v
}

// upToDate reports whether an IXFR query names our serial or, by RFC 1982, a
// later one.
func upToDate(r *dns.Msg, serial uint32) bool {
	for _, rr := range r.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return int32(soa.Serial-serial) >= 0
		}
	}
	return false
}

// axfrMessage is one message of a transfer.
func axfrMessage(r *dns.Msg, rrs []dns.RR) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	m.Authoritative = true
	m.Answer = rrs
	return m
}

// transferChunk is about how large the messages of a transfer are.
const transferChunk = 16 * 1024

// stream sends records in as many messages as they need. Each is one frame of
// the connection, between which others' replies may stand.
func (q *query) stream(r *dns.Msg, records func(yield func(dns.RR) bool)) {
	var chunk []dns.RR
	size := 0
	flush := func() bool {
		q.written = false
		err := q.WriteMsg(axfrMessage(r, chunk))
		chunk, size = nil, 0
		return err == nil
	}
	for rr := range records {
		if size += dns.Len(rr); size > transferChunk && len(chunk) > 0 {
			size = dns.Len(rr)
			if !flush() {
				return
			}
		}
		chunk = append(chunk, rr)
	}
	flush()
}

// zoneSOA is a zone's SOA record.
func (v *view) zoneSOA(zone string) dns.RR {
	for _, z := range v.conf.zones {
		if z.name == zone {
			return recordWriter{view: v, owner: zone, zone: z}.soa()
		}
	}
	return nil
}

// zoneTransfer yields the SOA, every record of the zone once, and the SOA
// again. All are of one view, so of one serial.
func (v *view) zoneTransfer(zone string, soa dns.RR) func(yield func(dns.RR) bool) {
	return func(yield func(dns.RR) bool) {
		if !yield(soa) {
			return
		}
		done := v.eachRecord(func(_ discovery.Key, rr dns.RR) bool {
			isSOA := rr.Header().Rrtype == dns.TypeSOA
			return isSOA || !dns.IsSubDomain(zone, rr.Header().Name) || yield(rr)
		})
		if done {
			yield(soa)
		}
	}
}
