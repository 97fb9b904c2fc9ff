package dnsserver

import (
	"bytes"
	"net/netip"
	"slices"
)

// dashedLabel spells an address as one label: 10-244-0-3, fd00-244--5. Neither
// end may be a hyphen, so a compressed run of zeros there gets one of its
// zeros back: ::5 is 0--5, fd00:: is fd00--0 (B13).
func dashedLabel(a netip.Addr) string { return string(appendDashed(nil, a)) }

// appendDashed appends the dashed label of an address to an empty buffer. It
// does not allocate if there is room for 63 octets.
func appendDashed(empty []byte, a netip.Addr) []byte {
	label := a.AppendTo(empty)
	for i, c := range label {
		if c == '.' || c == ':' {
			label[i] = '-'
		}
	}
	if label[0] == '-' {
		label = slices.Insert(label, 0, '0')
	}
	if label[len(label)-1] == '-' {
		label = append(label, '0')
	}
	return label
}

// parseDashed reads an address in any spelling of a dashed label (H8, P4). It
// does not allocate, which is why it does not go through netip.ParseAddr: most
// labels that come here are search-path misses (A1).
func parseDashed(label []byte) (netip.Addr, bool) {
	if a, ok := parseDashed4(label); ok {
		return a, true
	}
	return parseDashed6(label)
}

// parseDashed4 reads four decimal numbers without leading zeros.
func parseDashed4(label []byte) (netip.Addr, bool) {
	var octets [4]byte
	for i := range octets {
		part, rest, more := bytes.Cut(label, []byte("-"))
		n, ok := parseOctet(part)
		if !ok || more == (i == len(octets)-1) {
			return netip.Addr{}, false
		}
		octets[i], label = n, rest
	}
	return netip.AddrFrom4(octets), true
}

// parseOctet reads a number 0..255 in its one canonical spelling (R8).
func parseOctet(digits []byte) (byte, bool) {
	if len(digits) == 0 || len(digits) > 3 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return byte(n), n <= 255
}

// parseDashed6 reads groups of up to four hexadecimal digits, at most one run
// of them left out, as RFC 4291 §2.2 has it with hyphens for colons. IPv4-mapped
// addresses are none: no endpoint and no pod has one.
func parseDashed6(label []byte) (netip.Addr, bool) {
	head, tail, compressed := bytes.Cut(label, []byte("--"))
	var before, after [16]byte
	n, ok := parseGroups(head, &before)
	if !compressed {
		a := netip.AddrFrom16(before)
		return a, ok && n == len(before) && !a.Is4In6()
	}
	m, ok2 := parseGroups(tail, &after)
	if !ok || !ok2 || n+m > len(before)-2 {
		return netip.Addr{}, false
	}
	copy(before[len(before)-m:], after[:m])
	a := netip.AddrFrom16(before)
	return a, !a.Is4In6()
}

// parseGroups reads groups into the front of the array and returns how many
// octets they fill.
func parseGroups(text []byte, into *[16]byte) (octets int, ok bool) {
	for more := len(text) > 0; more; octets += 2 {
		var group []byte
		group, text, more = bytes.Cut(text, []byte("-"))
		n, valid := parseGroup(group)
		if !valid || octets == len(into) {
			return 0, false
		}
		into[octets], into[octets+1] = byte(n>>8), byte(n)
	}
	return octets, true
}

func parseGroup(digits []byte) (uint16, bool) {
	if len(digits) == 0 || len(digits) > 4 {
		return 0, false
	}
	var n uint16
	for _, c := range digits {
		d, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		n = n<<4 | uint16(d)
	}
	return n, true
}

// hexDigit reads one digit; letters are lower case already.
func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	default:
		return 0, false
	}
}
