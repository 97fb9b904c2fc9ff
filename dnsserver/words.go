package dnsserver

import (
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// ParseType returns the record type of a name such as "AAAA", or "TYPE65280".
func ParseType(name string) (uint16, bool) {
	return parseWord(name, dns.StringToType, "TYPE")
}

// ParseClass returns the class of a name such as "IN", or "CLASS32".
func ParseClass(name string) (uint16, bool) {
	return parseWord(name, dns.StringToClass, "CLASS")
}

// ParseRcode returns the response code of a name such as "NXDOMAIN", or of its
// number.
func ParseRcode(name string) (int, bool) {
	if code, ok := dns.StringToRcode[strings.ToUpper(name)]; ok {
		return code, true
	}
	n, err := strconv.ParseUint(name, 10, 12)
	return int(n), err == nil
}

// parseWord looks a name up, or takes its number (RFC 3597 5).
func parseWord(name string, known map[string]uint16, prefix string) (uint16, bool) {
	name = strings.ToUpper(name)
	if v, ok := known[name]; ok {
		return v, true
	}
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.ParseUint(digits, 10, 16)
	return uint16(n), ok && err == nil
}

// The options of EDNS that a rewrite may set.
const (
	// OptionNSID asks for the server's identity (RFC 5001).
	OptionNSID = dns.EDNS0NSID
	// OptionSubnet is the client's network (RFC 7871).
	OptionSubnet = dns.EDNS0SUBNET
)

// TypeANY and ClassANY stand for all types and all classes, ClassIN for the
// Internet.
const (
	TypeANY  = dns.TypeANY
	ClassANY = dns.ClassANY
	ClassIN  = dns.ClassINET
)
