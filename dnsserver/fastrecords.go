package dnsserver

import (
	"encoding/binary"
	"net"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// addresses appends A or AAAA records, as many as fit: an answer that is cut
// says so (W20).
func (w *fastWriter) addresses(r result) bool {
	octets := r.addrs
	var one [net.IPv6len]byte
	if r.addr.IsValid() { // pods' names are made up on demand
		if a := r.addr; a.Is4() {
			v4 := a.As4()
			octets = append(one[:0], v4[:]...)
		} else {
			one = a.As16()
			octets = one[:]
		}
	}
	size := addressLen(r.rtype)
	n := len(octets) / size
	if n > maxFastRecords {
		return false
	}
	kept := min(n, (w.f.q.limit-len(w.wire))/(2+fixedLen+size))
	w.set(toQuestion, r.rtype, octets, kept)
	w.answers, w.truncated = kept, kept < n
	return true
}

// addressLen is the length of an address in a record of the type.
func addressLen(rtype uint16) int {
	if rtype == dns.TypeA {
		return net.IPv4len
	}
	return net.IPv6len
}

// set appends an RRset of addresses, or the first of it as shuffled.
func (w *fastWriter) set(owner, rtype uint16, octets []byte, kept int) {
	size, ttl := addressLen(rtype), w.view.conf.TTL
	if n := len(octets) / size; n > 1 && w.b.shuffle {
		for _, i := range w.f.shuffled(n, kept) {
			at := int(i) * size
			w.header(owner, rtype, ttl, size)
			w.wire = append(w.wire, octets[at:at+size]...)
		}
		return
	}
	for at := 0; at < kept*size; at += size {
		w.header(owner, rtype, ttl, size)
		w.wire = append(w.wire, octets[at:at+size]...)
	}
}

// shuffled returns the first of a random permutation of n numbers: as many
// steps of Fisher and Yates' shuffle as are wanted.
func (f *fastPath) shuffled(n, first int) []uint16 {
	order := f.order[:n]
	copy(order, f.inOrder[:])
	for i := range min(first, n-1) {
		j := i + f.rand.IntN(n-i)
		order[i], order[j] = order[j], order[i]
	}
	return order[:first]
}

// srv appends SRV records and the addresses of their targets. The targets are
// not compressed (RFC 2782), but the addresses' owners point at them.
func (w *fastWriter) srv(r result) bool {
	n := len(r.srv)
	longest := 1 + maxLabelOctets + nameLen(r.service.key) + len(w.zone.wire)
	if n > maxFastRecords || longest > maxNameOctets {
		return false
	}
	order := w.f.inOrder[:n]
	if w.b.shuffleSRV && n > 1 {
		order = w.f.shuffled(n, n)
	}
	weight := uint16(max(1, 100/n))
	own := w.ownName(r.service.key)
	for _, i := range order {
		if !w.srvRecord(r.service, r.srv[i], int(i), weight, own) {
			w.truncated = true
			return true
		}
		w.answers++
	}
	if len(w.wire) > maxPointer { // pointers don't reach that far
		return false
	}
	w.glue(r)
	return true
}

// ownName is a service's name in wire form without its zone, for a question at
// or below that name. It is taken from the question, which the processor has at
// hand, unlike the service's own strings.
func (w *fastWriter) ownName(k discovery.Key) []byte {
	q := &w.f.q.name
	return q.from(q.labels - w.zone.labels - 3)[:nameLen(k)]
}

// nameLen is the length of a service's name in wire form without its zone.
func nameLen(k discovery.Key) int { return 1 + len(k.Name) + 1 + len(k.Namespace) + len("\x03svc") }

// srvRecord appends a record and remembers where its target begins; false
// means that it doesn't fit. own is the service's ownName.
func (w *fastWriter) srvRecord(a *answers, t target, i int, weight uint16, own []byte) bool {
	label := ""
	if t.endpoint != itself {
		label = a.endpoints[t.endpoint].label
	}
	size := 6 + len(own) + len(w.zone.wire)
	if label != "" {
		size += 1 + len(label)
	}
	if len(w.wire)+2+fixedLen+size > w.f.q.limit {
		return false
	}
	w.header(toQuestion, dns.TypeSRV, w.view.conf.TTL, size)
	w.wire = append(w.wire, 0, 0, byte(weight>>8), byte(weight), byte(t.port>>8), byte(t.port))
	w.f.targets[i] = uint16(len(w.wire))
	if label != "" {
		w.wire = appendLabel(w.wire, label)
	}
	w.wire = append(w.wire, own...)
	w.wire = append(w.wire, w.zoneName()...)
	return true
}

// glue appends the targets' addresses, once for each target, until a set
// doesn't fit: a client can ask for what is missing (W20).
func (w *fastWriter) glue(r result) {
	last := target{endpoint: itself - 1}
	for i, t := range r.srv {
		if t.endpoint == last.endpoint {
			continue
		}
		last = t
		v4, v6 := r.service.targetAddrs(t)
		if !w.glueSet(i, dns.TypeA, v4) || !w.glueSet(i, dns.TypeAAAA, v6) {
			return
		}
	}
}

// glueSet appends the addresses of one family of record i's target; false
// means that they don't fit.
func (w *fastWriter) glueSet(i int, rtype uint16, octets []byte) bool {
	size := addressLen(rtype)
	n := len(octets) / size
	if len(w.wire)+n*(2+fixedLen+size) > w.f.q.limit || n > maxFastRecords {
		return false
	}
	w.set(pointer0|w.f.targets[i], rtype, octets, n)
	w.additionals += n
	return true
}

// ptr appends PTR records in the order of the list (R3). The zone's name is
// written once.
func (w *fastWriter) ptr(list pointerList) bool {
	zone, zoneAt := w.zone.parent.wire, 0
	for best := list[0]; list != ""; {
		rank, relative, rest := list.next()
		if w.view.conf.PTRHostnameOnly && best == rankHostname && rank != best {
			break
		}
		list = rest
		if len(relative)+len(zone) > maxNameOctets {
			continue // as in recordWriter
		}
		w.header(toQuestion, dns.TypePTR, w.view.conf.TTL, 0)
		data := len(w.wire)
		w.wire = append(w.wire, relative...)
		if zoneAt == 0 {
			zoneAt = len(w.wire)
			w.wire = append(w.wire, zone...)
		} else {
			w.wire = binary.BigEndian.AppendUint16(w.wire, pointer0|uint16(zoneAt))
		}
		w.setSize(data)
		w.answers++
		if !w.fits() {
			return false
		}
	}
	return true
}
