package dnsserver

import (
	"net/netip"
	"strconv"
	"strings"
)

// ReverseZones returns the reverse zones that cover a network, fully
// qualified: one if the prefix ends at an octet (IPv4) or a nibble (IPv6),
// else one for each octet or nibble that it covers (R10). So 10.96.0.0/12 is
// 96.10.in-addr.arpa. to 111.10.in-addr.arpa. The caller makes sure that the
// prefix is valid; of one that is not there are no zones.
func ReverseZones(p netip.Prefix) []string {
	if !p.IsValid() {
		return nil
	}
	p = p.Masked()
	addr, unit, suffix, base := p.Addr(), 8, "in-addr.arpa.", 10
	if addr.Is6() {
		unit, suffix, base = 4, "ip6.arpa.", 16
	}
	whole, rest := p.Bits()/unit, p.Bits()%unit
	for i := range whole {
		suffix = strconv.FormatInt(int64(addrUnit(addr, unit, i)), base) + "." + suffix
	}
	if rest == 0 {
		return []string{suffix}
	}
	var zones []string
	first := addrUnit(addr, unit, whole)
	for n := range 1 << (unit - rest) {
		zones = append(zones, strconv.FormatInt(int64(first+n), base)+"."+suffix)
	}
	return zones
}

// addrUnit returns octet i (unit 8) or nibble i (unit 4) of an address.
func addrUnit(a netip.Addr, unit, i int) int {
	octets := a.AsSlice()
	if unit == 8 {
		return int(octets[i])
	}
	if i%2 == 0 {
		return int(octets[i/2] >> 4)
	}
	return int(octets[i/2] & 0x0f)
}

// parseReverse reads a name under in-addr.arpa or ip6.arpa as the network that
// it stands for; a whole address is a network of one. Only the canonical
// spelling is one: no leading zeros (R8), one digit a nibble.
func parseReverse(q *queryName) (netip.Prefix, bool) {
	if q.labels < 2 || string(q.label(q.labels-1)) != "arpa" {
		return netip.Prefix{}, false
	}
	switch string(q.label(q.labels - 2)) {
	case "in-addr":
		return parseReverse4(q)
	case "ip6":
		return parseReverse6(q)
	default:
		return netip.Prefix{}, false
	}
}

func parseReverse4(q *queryName) (netip.Prefix, bool) {
	var octets [4]byte
	n := q.labels - 2
	if n > len(octets) {
		return netip.Prefix{}, false
	}
	for i := range n {
		octet, ok := parseOctet(q.label(n - 1 - i))
		if !ok {
			return netip.Prefix{}, false
		}
		octets[i] = octet
	}
	return netip.PrefixFrom(netip.AddrFrom4(octets), 8*n), true
}

func parseReverse6(q *queryName) (netip.Prefix, bool) {
	var octets [16]byte
	n := q.labels - 2
	if n > 2*len(octets) {
		return netip.Prefix{}, false
	}
	for i := range n {
		label := q.label(n - 1 - i)
		if len(label) != 1 {
			return netip.Prefix{}, false
		}
		digit, ok := hexDigit(label[0])
		if !ok {
			return netip.Prefix{}, false
		}
		octets[i/2] |= digit << (4 * (1 - i%2))
	}
	return netip.PrefixFrom(netip.AddrFrom16(octets), 4*n), true
}

// The ranks of the names of one address, in the order in which PTR records
// give them (R3).
const (
	rankHostname = '0' // an endpoint by the hostname that someone chose
	rankService  = '1' // a service by its virtual address
	rankDashed   = '2' // an endpoint by its address, or by its pod's name
)

// pointerList is the PTR records of one address, packed into one string: for
// each a rank and the name, relative to the zone, in wire form without
// compression. Sorted, and each once. The empty list is no records.
type pointerList string

// next returns the first name of the list without its root label, its rank and
// the list after it. The list must not be empty.
func (l pointerList) next() (rank byte, name string, rest pointerList) {
	end := l.firstLen()
	return l[0], string(l[1 : end-1]), l[end:]
}

// firstLen is the length of the first entry.
func (l pointerList) firstLen() int {
	at := 1
	for l[at] != 0 {
		at += 1 + int(l[at])
	}
	return at + 1
}

// with returns the list that has the entry as well.
func (l pointerList) with(entry pointerList) pointerList {
	at := 0
	for at < len(l) {
		first := l[at : at+l[at:].firstLen()]
		if first == entry {
			return l
		}
		if first > entry {
			break
		}
		at += len(first)
	}
	return l[:at] + entry + l[at:]
}

// without returns the list without the entry.
func (l pointerList) without(entry pointerList) pointerList {
	for at := 0; at < len(l); at += l[at:].firstLen() {
		if strings.HasPrefix(string(l[at:]), string(entry)) {
			return l[:at] + l[at+len(entry):]
		}
	}
	return l
}
