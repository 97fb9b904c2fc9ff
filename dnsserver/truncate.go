package dnsserver

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// fit cuts a packed message to limit octets and reports whether TC must be
// set. Compression pointers only point backwards, so a message that is cut
// behind a whole record stays valid.
//
// What goes first (W20, RFC 2181 9): additional records, by whole RRsets and
// without TC, because a client can ask for them; then an authority section
// that is a mere hint. Only a missing part of the answer itself (or of a
// referral, RFC 9471) sets TC, and then no record is cut in two.
//
// The header's counts are corrected to what is left.
func fit(wire []byte, question, limit int) (kept []byte, truncated bool) {
	if len(wire) <= limit {
		return wire, false
	}
	c := cutter{wire: wire, off: question, limit: limit}
	answers := c.count(6)
	if got := c.take(answers); got < answers {
		return c.cut(got, 0, 0), true
	}
	start, authorities := c.off, c.count(8)
	kind := c.authorityKind(authorities)
	if got := c.take(authorities); got < authorities {
		if answers > 0 && kind == authorityHint {
			c.off = start
			return c.cut(answers, 0, 0), false
		}
		return c.cut(answers, got, 0), true
	}
	additionals := c.count(10)
	got := c.takeSets(additionals)
	referral := answers == 0 && kind == authorityHint && authorities > 0
	return c.cut(answers, authorities, got), referral && got < additionals
}

// authority says what an authority section is for.
type authority uint8

const (
	// authorityHint: name servers only. With an answer they are an extra;
	// without one they are a referral.
	authorityHint authority = iota
	// authorityProof: SOA or DNSSEC records, part of what was asked for.
	authorityProof
)

// cutter walks over the records of a packed message.
type cutter struct {
	wire  []byte
	off   int
	limit int
}

// count reads a section count of the header.
func (c *cutter) count(at int) int { return int(binary.BigEndian.Uint16(c.wire[at:])) }

// take moves over at most n records that fit and returns how many did.
func (c *cutter) take(n int) int {
	for i := range n {
		rr, ok := readRecord(c.wire, c.off)
		if !ok || rr.end > c.limit {
			return i
		}
		c.off = rr.end
	}
	return n
}

// takeSets is take for whole RRsets: neighbours of one owner and type.
func (c *cutter) takeSets(n int) int {
	var owner string
	var rtype uint16
	setStart, setOff := 0, c.off
	for i := range n {
		rr, ok := readRecord(c.wire, c.off)
		if !ok {
			break
		}
		name, _, err := dns.UnpackDomainName(c.wire, c.off)
		if err != nil {
			break
		}
		if name != owner || rr.rtype != rtype {
			owner, rtype, setStart, setOff = name, rr.rtype, i, c.off
		}
		if rr.end > c.limit {
			break
		}
		c.off = rr.end
		if i == n-1 {
			return n
		}
	}
	c.off = setOff
	return setStart
}

// authorityKind looks at the n records from here without moving.
func (c *cutter) authorityKind(n int) authority {
	off := c.off
	for range n {
		rr, ok := readRecord(c.wire, off)
		if !ok {
			break
		}
		if rr.rtype != dns.TypeNS {
			return authorityProof
		}
		off = rr.end
	}
	return authorityHint
}

// cut ends the message here, with these counts.
func (c *cutter) cut(answers, authorities, additionals int) []byte {
	for i, n := range []int{answers, authorities, additionals} {
		binary.BigEndian.PutUint16(c.wire[6+2*i:], uint16(n))
	}
	return c.wire[:c.off]
}
