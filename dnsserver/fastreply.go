package dnsserver

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

const (
	// fixedLen is a record without its owner and its data.
	fixedLen = 10
	pointer0 = 0xC000 // a compression pointer's two upper bits (RFC 1035 4.1.4)
	// maxPointer is where a name may begin that a pointer leads to, exclusively.
	maxPointer = 0x4000
	// toQuestion points at the name that was asked for.
	toQuestion = pointer0 | headerLen
)

// fastWriter makes one reply of the cluster zones. It writes what recordWriter
// and packReply write together, names compressed the same way.
type fastWriter struct {
	f    *fastPath
	b    *fastBlock
	view *view
	zone *clusterZone
	wire []byte
	// zoneAt is where the zone's name begins in the question.
	zoneAt int

	answers, additionals int
	truncated            bool
}

// clusterReply turns a lookup's result into a reply. What it doesn't do:
// aliases that lead on, the zones' NS records, replies before the source has
// said everything, and in general what doesn't fit and isn't a list of
// addresses or SRV records.
func (f *fastPath) clusterReply(b *fastBlock, v *view, r result, dst []byte) (fastReply, bool) {
	q := &f.q
	flags := uint16(flagAA)
	if v.conf.RecursionAvailable {
		flags |= flagRA
	}
	if r.outcome == missing {
		flags |= dns.RcodeNameError
	}
	w := fastWriter{f: f, b: b, view: v, zone: r.zone, wire: q.begin(dst, flags)}
	w.zoneAt = headerLen + q.name.size - len(r.zone.wire)
	if !w.write(r) {
		return fastReply{}, false
	}
	authorities := 0
	if r.outcome != answered && r.outcome != alias {
		authorities = 1
	}
	setCounts(w.wire, w.answers, authorities, w.additionals)
	if w.truncated {
		w.wire[2] |= flagTC >> 8
	}
	return fastReply{wire: w.wire, rcode: int(flags & rcodeMask), who: answeredByCluster}, true
}

// write appends the sections; false means that the chain has to answer.
func (w *fastWriter) write(r result) bool {
	switch r.outcome {
	case missing, empty:
		w.soa()
		return w.fits()
	case alias:
		return w.f.q.in.qtype == dns.TypeCNAME && w.cname(r.service.alias)
	case answered:
		return w.records(r)
	default:
		return false
	}
}

// records appends the answer and what goes with it.
func (w *fastWriter) records(r result) bool {
	switch r.rtype {
	case dns.TypeA, dns.TypeAAAA:
		return w.addresses(r)
	case dns.TypeSRV:
		return w.srv(r)
	case dns.TypePTR:
		return w.ptr(r.pointers)
	case dns.TypeTXT:
		w.version()
	case dns.TypeSOA:
		w.soa()
	default:
		return false
	}
	w.answers = 1
	return w.fits()
}

// fits reports whether the reply is within the limit; if not, what may be left
// out is the chain's decision.
func (w *fastWriter) fits() bool { return len(w.wire) <= w.f.q.limit }

// header appends a record's owner, a pointer, and the fixed part.
func (w *fastWriter) header(owner uint16, rtype uint16, ttl uint32, size int) {
	w.wire = binary.BigEndian.AppendUint16(w.wire, owner)
	w.fixed(rtype, ttl, size)
}

func (w *fastWriter) fixed(rtype uint16, ttl uint32, size int) {
	w.wire = append(w.wire,
		byte(rtype>>8), byte(rtype), 0, dns.ClassINET,
		byte(ttl>>24), byte(ttl>>16), byte(ttl>>8), byte(ttl), byte(size>>8), byte(size))
}

// setSize writes the data's length into the record whose data begins at data.
func (w *fastWriter) setSize(data int) {
	binary.BigEndian.PutUint16(w.wire[data-2:], uint16(len(w.wire)-data))
}

// zoneName returns the zone as the question spells it (G3).
func (w *fastWriter) zoneName() []byte { return w.f.q.req[w.zoneAt : w.f.q.in.question-4] }

// soa appends the zone's SOA record (G6).
func (w *fastWriter) soa() {
	conf := w.view.conf
	w.header(pointer0|uint16(w.zoneAt), dns.TypeSOA, min(conf.TTL, maxSOATTL), 0)
	data := len(w.wire)
	w.wire = append(w.wire, "\x02ns\x03dns"...)
	parent := pointer0 | uint16(w.zoneAt)
	if w.zone.parent == w.zone {
		w.wire = binary.BigEndian.AppendUint16(w.wire, parent)
	} else {
		parent = pointer0 | uint16(len(w.wire))
		w.wire = append(w.wire, w.zone.parent.wire...)
	}
	w.wire = append(w.wire, "\x0ahostmaster"...)
	w.wire = binary.BigEndian.AppendUint16(w.wire, parent)
	for _, n := range [...]uint32{w.view.serial, soaRefresh, soaRetry, soaExpire, conf.TTL} {
		w.wire = binary.BigEndian.AppendUint32(w.wire, n)
	}
	w.setSize(data)
}

// version appends the schema version (V1, V4).
func (w *fastWriter) version() {
	version := schemaVersion
	if w.zone.multicluster {
		version = multiclusterSchemaVersion
	}
	w.header(toQuestion, dns.TypeTXT, versionTTL, 1+len(version))
	w.wire = append(w.wire, byte(len(version)))
	w.wire = append(w.wire, version...)
}

// cname appends the alias record itself (X1); the target is written out, in
// the letters that it was given in (X14).
func (w *fastWriter) cname(target string) bool {
	w.header(toQuestion, dns.TypeCNAME, w.view.conf.TTL, 0)
	data := len(w.wire)
	w.wire = append(w.wire, make([]byte, maxNameOctets)...)
	end, err := dns.PackDomainName(target, w.wire, data, nil, false)
	if err != nil {
		return false
	}
	w.wire = w.wire[:end]
	w.setSize(data)
	w.answers = 1
	return w.fits()
}
