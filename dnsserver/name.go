package dnsserver

import (
	"strings"

	"github.com/miekg/dns"
)

// The limits of RFC 1035 §2.3.4 for a name in wire form. A name of 255 octets
// has at most 127 labels.
const (
	maxNameOctets  = 255
	maxNameLabels  = 127
	maxLabelOctets = 63
)

// queryName is a domain name in lower-case wire form, with its labels found:
// what all matching works on (G4). It lives on the stack of whoever looks it
// up; the bytes of the query itself are needed again only for the reply, which
// repeats their case (G3).
type queryName struct {
	wire   [maxNameOctets]byte
	size   int // octets of wire in use, the root's included
	starts [maxNameLabels]uint8
	labels int // the root not counted
}

// parse reads a fully qualified name in presentation format and reports
// whether it is one. Escapes are bytes: `a\.b` is one label (W27).
func (n *queryName) parse(presentation string) bool {
	size, err := dns.PackDomainName(presentation, n.wire[:], 0, nil, false)
	return err == nil && size > 0 && n.index(size)
}

// read reads an uncompressed name in wire form from the start of a buffer and
// reports whether it is one. It ignores what follows the root label.
func (n *queryName) read(wire []byte) bool {
	size := 0
	for {
		if size >= len(wire) || size >= maxNameOctets || wire[size] > maxLabelOctets {
			return false
		}
		label := int(wire[size])
		size += 1 + label
		if label == 0 {
			break
		}
	}
	copy(n.wire[:], wire[:size])
	return n.index(size)
}

// index finds the labels of the name in wire[:size] and lowers its case. A
// length octet is at most 63 and so never looks like a letter.
func (n *queryName) index(size int) bool {
	n.size, n.labels = size, 0
	for i := range n.wire[:size] {
		if c := n.wire[i]; 'A' <= c && c <= 'Z' {
			n.wire[i] = c + ('a' - 'A')
		}
	}
	for at := 0; at < size; at += 1 + int(n.wire[at]) {
		if n.wire[at] == 0 {
			return at == size-1
		}
		n.starts[n.labels] = uint8(at)
		n.labels++
	}
	return false
}

// label returns label i, counted from the left, without its length octet.
func (n *queryName) label(i int) []byte {
	at := int(n.starts[i])
	return n.wire[at+1 : at+1+int(n.wire[at])]
}

// from returns the wire form of the name from label i on; from(labels) is the
// root.
func (n *queryName) from(i int) []byte {
	if i == n.labels {
		return n.wire[n.size-1 : n.size]
	}
	return n.wire[n.starts[i]:n.size]
}

// isHostLabel reports whether s is a label that an endpoint may be named by
// (RFC 1123 §2.1): letters, digits and inner hyphens, at most 63. A name with
// a dot in it would be one that no query can reach (B26).
func isHostLabel(s string) bool {
	if s == "" || len(s) > maxLabelOctets || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

// isObjectName reports whether s is a label in lower case, as the names of
// services and namespaces are.
func isObjectName(s string) bool { return isHostLabel(s) && s == strings.ToLower(s) }

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
