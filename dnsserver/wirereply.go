package dnsserver

import (
	"encoding/binary"
	"fmt"

	"github.com/miekg/dns"
)

// leastRecordLen is the room that the smallest record takes: a pointer or the
// root as owner, the fixed part, no data.
const leastRecordLen = 11

// replyShape is what a reply owes to the request and to the way it travels,
// whatever the answer is.
type replyShape struct {
	// limit is the largest reply in octets.
	limit int
	// opt is nil when the request had no OPT record (W17).
	opt *replyOPT
	// recursion sets RA (G2).
	recursion bool
}

// appendReject writes the reply to a rejected request: header, the question
// where it could be read, OPT where the request's was in order.
func appendReject(dst, req []byte, in *inspected, opt *replyOPT) []byte {
	start := len(dst)
	dst = append(dst, req[:max(in.question, headerLen)]...)
	head := dst[start:]
	flags := binary.BigEndian.Uint16(req[2:])&(opcodeMask|flagRD|flagCD) | flagQR
	flags |= uint16(in.rcode & rcodeMask)
	binary.BigEndian.PutUint16(head[2:], flags)
	clear(head[4:headerLen])
	if in.question > 0 {
		head[5] = 1
	}
	if opt != nil && in.rcode != dns.RcodeFormatError {
		head[11] = 1
		dst = opt.append(dst, in.rcode)
	}
	return dst
}

// packReply packs m as the reply to req into buf, which grows as needed. Id,
// opcode, RD, CD and the question's bytes are the request's (G1, G3); records
// are compressed; what doesn't fit is left out by the rules of fit. The
// message is only read: its records may be shared with other queries.
func packReply(buf, req []byte, in *inspected, m *dns.Msg, shape replyShape) ([]byte, error) {
	question, _, err := dns.UnpackDomainName(req, headerLen)
	if err != nil {
		return nil, fmt.Errorf("packing reply: question: %w", err)
	}
	limit := shape.limit
	if shape.opt != nil {
		limit -= shape.opt.wireLen()
	}
	enough := limit/leastRecordLen + 1 // more than fits in any case
	body := dns.Msg{
		Question: []dns.Question{{Name: question, Qtype: in.qtype, Qclass: in.qclass}},
		Answer:   m.Answer[:min(len(m.Answer), enough)],
		Ns:       m.Ns[:min(len(m.Ns), enough)],
		Extra:    withoutOPT(m.Extra),
		Compress: true,
	}
	body.Extra = body.Extra[:min(len(body.Extra), enough)]
	wire, err := body.PackBuffer(buf)
	if err != nil {
		return nil, fmt.Errorf("packing reply: %w", err)
	}
	copy(wire[headerLen:in.question], req[headerLen:in.question])
	wire, truncated := fit(wire, in.question, limit)
	binary.BigEndian.PutUint16(wire, binary.BigEndian.Uint16(req))
	binary.BigEndian.PutUint16(wire[2:], replyFlags(req, in, m, shape.recursion, truncated))
	if shape.opt != nil {
		binary.BigEndian.PutUint16(wire[10:], binary.BigEndian.Uint16(wire[10:])+1)
		wire = shape.opt.append(wire, m.Rcode)
	}
	return wire, nil
}

// replyFlags makes the second header word (G1).
func replyFlags(req []byte, in *inspected, m *dns.Msg, recursion, truncated bool) uint16 {
	asked := binary.BigEndian.Uint16(req[2:])
	flags := asked&(opcodeMask|flagRD|flagCD) | flagQR
	set := func(on bool, bit uint16) {
		if on {
			flags |= bit
		}
	}
	set(m.Authoritative, flagAA)
	set(m.Truncated || truncated, flagTC)
	set(m.RecursionAvailable || recursion, flagRA)
	// AD is for those who say that they understand it (RFC 6840 5.8).
	set(m.AuthenticatedData && (asked&flagAD != 0 || in.edns.do), flagAD)
	rcode := m.Rcode
	if rcode > rcodeMask && !in.edns.present { // can't be said without OPT
		rcode = dns.RcodeServerFailure
	}
	return flags | uint16(rcode&rcodeMask)
}

// withoutOPT returns the records but OPT; the slice is copied only if there is
// one.
func withoutOPT(extra []dns.RR) []dns.RR {
	for i, rr := range extra {
		if rr.Header().Rrtype != dns.TypeOPT {
			continue
		}
		rest := append([]dns.RR(nil), extra[:i]...)
		for _, rr := range extra[i+1:] {
			if rr.Header().Rrtype != dns.TypeOPT {
				rest = append(rest, rr)
			}
		}
		return rest
	}
	return extra
}
