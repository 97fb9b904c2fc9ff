package dnsserver

import (
	"encoding/binary"
	"time"

	"github.com/miekg/dns"
)

// replyOPT describes the OPT record of a reply; it is our own, never a copy of
// the client's or an upstream's.
type replyOPT struct {
	size uint16
	do   bool
	// keepalive is the idle time to announce; 0 leaves the option out.
	keepalive time.Duration
	// cookie is the client's and a server cookie of ours, whole or not at all
	// (W18).
	hasCookie bool
	cookie    [cookieLen]byte
	// ede says more than the rcode (RFC 8914); nil leaves the option out.
	ede *extendedError
}

// extendedError is an extended DNS error.
type extendedError struct {
	code uint16
	text string
}

// maxErrorText keeps explanations from taking the answer's room.
const maxErrorText = 200

// optionHead is the room that an option's code and length take.
const optionHead = 4

// wireLen is the room that the record takes.
func (o *replyOPT) wireLen() int {
	n := optLen
	if o.keepalive > 0 {
		n += keepaliveLen
	}
	if o.hasCookie {
		n += optionHead + cookieLen
	}
	if o.ede != nil {
		n += optionHead + 2 + len(o.errorText())
	}
	return n
}

func (o *replyOPT) errorText() string { return o.ede.text[:min(len(o.ede.text), maxErrorText)] }

// append writes the record. The upper eight bits of the rcode live here.
func (o *replyOPT) append(dst []byte, rcode int) []byte {
	var ttl uint32
	if o.do {
		ttl = flagDO
	}
	ttl |= uint32(rcode>>4) << 24
	dst = append(dst, 0)
	dst = binary.BigEndian.AppendUint16(dst, dns.TypeOPT)
	dst = binary.BigEndian.AppendUint16(dst, o.size)
	dst = binary.BigEndian.AppendUint32(dst, ttl)
	dst = binary.BigEndian.AppendUint16(dst, uint16(o.wireLen()-optLen))
	if o.keepalive > 0 {
		units := min(o.keepalive/(100*time.Millisecond), 0xFFFF)
		dst = appendOption(dst, dns.EDNS0TCPKEEPALIVE, 2)
		dst = binary.BigEndian.AppendUint16(dst, uint16(units))
	}
	if o.hasCookie {
		dst = append(appendOption(dst, dns.EDNS0COOKIE, cookieLen), o.cookie[:]...)
	}
	if o.ede != nil {
		text := o.errorText()
		dst = appendOption(dst, dns.EDNS0EDE, 2+len(text))
		dst = append(binary.BigEndian.AppendUint16(dst, o.ede.code), text...)
	}
	return dst
}

// appendOption writes an option's code and length.
func appendOption(dst []byte, code uint16, n int) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(dst, code), uint16(n))
}
