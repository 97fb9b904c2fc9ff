package dnsserver

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

const (
	// minUDPSize is what every client must take (RFC 1035 4.2.1), and the
	// least that an EDNS size means (RFC 6891 6.2.3).
	minUDPSize = dns.MinMsgSize
	// defaultUDPSize avoids fragments on every usual path (DNS flag day 2020).
	defaultUDPSize = 1232
	// maxTCPSize is what the length prefix can say.
	maxTCPSize = dns.MaxMsgSize

	optLen       = 11 // an OPT record without options
	keepaliveLen = 6  // the keepalive option with a timeout
	flagDO       = 1 << 15
)

// ednsInfo is what a request's OPT record says (RFC 6891).
type ednsInfo struct {
	present bool
	version uint8
	do      bool
	// keepalive is set when the client asks for edns-tcp-keepalive (RFC 7828).
	keepalive bool
	size      uint16
	cookie    cookieOption
}

// read takes the OPT record in; false means that it is malformed (W14).
func (e *ednsInfo) read(rr record, b []byte) bool {
	e.present = true
	e.size = binary.BigEndian.Uint16(b[rr.fixed+2:])
	ttl := binary.BigEndian.Uint32(b[rr.fixed+4:])
	e.version = uint8(ttl >> 16)
	e.do = ttl&flagDO != 0
	return e.readOptions(b[rr.data:rr.end])
}

// readOptions walks the options. Unknown ones are skipped: they are neither
// used nor echoed (W17).
func (e *ednsInfo) readOptions(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 4 {
			return false
		}
		n := int(binary.BigEndian.Uint16(b[2:]))
		if len(b) < 4+n {
			return false
		}
		switch binary.BigEndian.Uint16(b) {
		case dns.EDNS0TCPKEEPALIVE:
			e.keepalive = true
		case dns.EDNS0COOKIE:
			if !e.cookie.read(b[4 : 4+n]) {
				return false
			}
		}
		b = b[4+n:]
	}
	return true
}

// udpLimit is the largest reply for a UDP client (W16, W19).
func (e *ednsInfo) udpLimit(most uint16) int {
	if !e.present {
		return minUDPSize
	}
	return int(max(minUDPSize, min(e.size, most)))
}
