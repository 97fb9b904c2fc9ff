package dnsserver

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// Record is one resource record of the zones, for people.
type Record struct {
	// Service is whose record it is; zero for those of the zone itself.
	Service discovery.Key
	Name    string // fully qualified
	TTL     uint32 // in seconds
	Type    string // "A", "SRV", ...
	Data    string // in presentation format
}

// Records yields every record that the zones hold: first those of the zones
// themselves, then each service's with its reverse names, services in order.
// Names of pods that are made up on demand (PodsInsecure, PodsVerified) and
// what aliases lead to are not among them. All are of one revision.
func (c *Cluster) Records() iter.Seq[Record] {
	v := c.view.Load()
	return func(yield func(Record) bool) {
		v.eachRecord(func(k discovery.Key, rr dns.RR) bool { return yield(newRecord(k, rr)) })
	}
}

// eachRecord yields what Records does, and reports whether all was wanted.
func (v *view) eachRecord(yield func(discovery.Key, dns.RR) bool) bool {
	for _, z := range v.conf.zones {
		if !v.zoneRecords(z, yield) {
			return false
		}
	}
	keys := slices.Collect(maps.Keys(maps.Collect(v.services.All())))
	for _, k := range slices.SortedFunc(slices.Values(keys), discovery.Key.Compare) {
		if a, _ := v.services.Get(k); !v.serviceRecords(a, yield) {
			return false
		}
	}
	return true
}

// zoneRecords yields what a zone holds without any service, and reports
// whether to go on.
func (v *view) zoneRecords(z *clusterZone, yield func(discovery.Key, dns.RR) bool) bool {
	emit := emitter{view: v, yield: yield}
	ok := emit.all(z.name, dns.TypeSOA, dns.TypeNS)
	if z.reverse {
		return ok
	}
	suffix := strings.TrimPrefix(z.name, ".")
	return ok && emit.all("dns-version."+suffix, dns.TypeTXT) && emit.all("ns.dns."+suffix, dns.TypeA, dns.TypeAAAA)
}

// serviceRecords yields a service's records in every zone, and reports whether
// to go on.
func (v *view) serviceRecords(a *answers, yield func(discovery.Key, dns.RR) bool) bool {
	emit := emitter{view: v, service: a.key, yield: yield}
	for _, z := range v.conf.zones {
		if z.reverse || z.multicluster {
			continue
		}
		for _, name := range a.names() {
			ok := emit.all(name+serviceName(a.key)+strings.TrimPrefix(z.name, "."), dns.TypeA, dns.TypeAAAA, dns.TypeSRV)
			if !ok {
				return false
			}
		}
	}
	for _, p := range a.pointers() {
		if !emit.pointer(p) {
			return false
		}
	}
	return true
}

// names lists the names of a service relative to it, its own being empty.
func (a *answers) names() []string {
	names := []string{""}
	for _, p := range a.ports {
		names = append(names, "_"+p.name.Value()+"._"+strings.ToLower(p.protocol.String())+".")
	}
	for i := range a.endpoints {
		names = append(names, a.endpoints[i].label+".")
	}
	return names
}

// emitter turns answers into records.
type emitter struct {
	view    *view
	service discovery.Key
	yield   func(discovery.Key, dns.RR) bool
}

// all yields the records of those types at a name, as a query would get them.
func (e emitter) all(name string, types ...uint16) bool {
	var q queryName
	if !q.parse(name) {
		return true
	}
	for _, qtype := range types {
		r := e.view.lookup(&q, qtype)
		if r.outcome != answered && r.outcome != alias {
			continue
		}
		records, _ := recordWriter{view: e.view, owner: name, zone: r.zone}.records(r)
		for _, rr := range records {
			if !e.one(rr) {
				return false
			}
		}
		if r.outcome == alias {
			break // the same for every type
		}
	}
	return true
}

// pointer yields one reverse name, if it lies in a zone.
func (e emitter) pointer(p pointer) bool {
	name, err := dns.ReverseAddr(p.addr.String())
	var q queryName
	if err != nil || !q.parse(name) {
		return true
	}
	zone := e.view.conf.zoneOf(&q)
	if zone == nil {
		return true
	}
	w := recordWriter{view: e.view, owner: name, zone: zone}
	for _, rr := range w.ptr(p.entry) {
		if !e.one(rr) {
			return false
		}
	}
	return true
}

func (e emitter) one(rr dns.RR) bool { return e.yield(e.service, rr) }

func newRecord(service discovery.Key, rr dns.RR) Record {
	h := rr.Header()
	return Record{
		Service: service, Name: h.Name, TTL: h.Ttl, Type: dns.TypeToString[h.Rrtype],
		Data: strings.TrimPrefix(rr.String(), h.String()),
	}
}
