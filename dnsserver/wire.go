package dnsserver

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// The bits of the second header word (RFC 1035 4.1.1, RFC 4035 3.1.6).
const (
	flagQR = 1 << 15
	flagAA = 1 << 10
	flagTC = 1 << 9
	flagRD = 1 << 8
	flagRA = 1 << 7
	flagAD = 1 << 5
	flagCD = 1 << 4

	opcodeMask = 0xF << 11
	rcodeMask  = 0xF
)

const (
	headerLen   = 12
	maxNameLen  = 255 // octets on the wire (RFC 1035 2.3.4)
	maxLabelLen = 63
)

// verdict is what to do with a request, decided from its bytes alone.
type verdict uint8

const (
	// accept: worth unpacking.
	accept verdict = iota
	// discard: nothing that may be replied to.
	discard
	// reject: reply with the rcode found and no records.
	reject
)

// inspected is what the bytes of a request say about it. Nothing is unpacked
// and nothing is allocated to find it out, so junk costs next to nothing.
type inspected struct {
	// question is the end of the question section; 0 when it can't be read.
	question int
	// end is where the message ends; bytes after it are ignored (W9).
	end           int
	qtype, qclass uint16
	edns          ednsInfo
	// rcode is the reason of a reject, extended ones included.
	rcode int
}

// inspect applies the rules W1 to W15 that need no knowledge of names.
func inspect(b []byte) (inspected, verdict) {
	var in inspected
	if len(b) < headerLen {
		return in, discard
	}
	flags := binary.BigEndian.Uint16(b[2:])
	if flags&flagQR != 0 { // a response: replying could start a loop
		return in, discard
	}
	in.rcode = in.fault(b, flags)
	if in.rcode != dns.RcodeSuccess {
		return in, reject
	}
	return in, accept
}

// fault returns the rcode that a request deserves before anything is looked
// up, or success.
func (in *inspected) fault(b []byte, flags uint16) int {
	if flags&opcodeMask>>11 != dns.OpcodeQuery {
		return dns.RcodeNotImplemented // NOTIFY too: no secondary zones here (W2, W3)
	}
	if !plausibleCounts(b) || !in.readQuestion(b) || !in.readRecords(b) {
		return dns.RcodeFormatError
	}
	if in.edns.present && in.edns.version != 0 {
		return dns.RcodeBadVers // W12, before the question is judged: RFC 6891 6.1.3
	}
	return questionFault(in.qtype, in.qclass)
}

// plausibleCounts checks the section counts (W4, W8). A query has one
// question; IXFR puts a record in authority, TSIG and OPT go in additional.
func plausibleCounts(b []byte) bool {
	return binary.BigEndian.Uint16(b[4:]) == 1 &&
		binary.BigEndian.Uint16(b[6:]) <= 1 &&
		binary.BigEndian.Uint16(b[8:]) <= 1 &&
		binary.BigEndian.Uint16(b[10:]) <= 2
}

// questionFault judges type and class (W10, W11): what isn't a type of data,
// and any class but IN, whatever the name.
func questionFault(qtype, qclass uint16) int {
	switch {
	case qclass != dns.ClassINET:
		return dns.RcodeRefused
	case qtype == dns.TypeNone, qtype == dns.TypeOPT:
		return dns.RcodeFormatError
	case qtype == dns.TypeTKEY, qtype == dns.TypeTSIG:
		return dns.RcodeNotImplemented
	}
	return dns.RcodeSuccess
}

// readQuestion finds the end of the one question (W6, W7). Its name is the
// first of the message, so a compression pointer in it has nothing to point
// at and is an error.
func (in *inspected) readQuestion(b []byte) bool {
	off, ok := skipName(b, headerLen, false)
	if !ok || off+4 > len(b) {
		return false
	}
	in.qtype = binary.BigEndian.Uint16(b[off:])
	in.qclass = binary.BigEndian.Uint16(b[off+2:])
	in.question = off + 4
	in.end = in.question
	return true
}

// readRecords walks the records after the question to find the OPT record and
// the end of the message.
func (in *inspected) readRecords(b []byte) bool {
	others := int(binary.BigEndian.Uint16(b[6:])) + int(binary.BigEndian.Uint16(b[8:]))
	additional := int(binary.BigEndian.Uint16(b[10:]))
	for i := range others + additional {
		rr, ok := readRecord(b, in.end)
		if !ok {
			return false
		}
		if rr.rtype == dns.TypeOPT {
			rooted := rr.fixed == in.end+1 // an owner of one octet is the root (W15)
			if i < others || in.edns.present || !rooted || !in.edns.read(rr, b) {
				return false
			}
		}
		in.end = rr.end
	}
	return true
}

// record is the position of a resource record in a message.
type record struct {
	// fixed is where type, class, TTL and length begin, data the RDATA.
	fixed, data, end int
	rtype            uint16
}

// readRecord finds the resource record at off.
func readRecord(b []byte, off int) (record, bool) {
	fixed, ok := skipName(b, off, true)
	if !ok || fixed+10 > len(b) {
		return record{}, false
	}
	rr := record{fixed: fixed, data: fixed + 10, rtype: binary.BigEndian.Uint16(b[fixed:])}
	rr.end = rr.data + int(binary.BigEndian.Uint16(b[fixed+8:]))
	return rr, rr.end <= len(b)
}

// skipName returns the offset after the name at off. It doesn't follow
// pointers: whoever unpacks the name has to guard against loops.
func skipName(b []byte, off int, pointers bool) (int, bool) {
	for start := off; off < len(b) && off-start < maxNameLen; {
		n := int(b[off])
		switch {
		case n == 0:
			return off + 1, true
		case n <= maxLabelLen:
			off += n + 1
		case n >= 0xC0 && pointers && off+2 <= len(b):
			return off + 2, true
		default: // label types 01 and 10 (RFC 6891 5), or a pointer out of place
			return 0, false
		}
	}
	return 0, false
}
