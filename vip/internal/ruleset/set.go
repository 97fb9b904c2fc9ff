package ruleset

import (
	"encoding/binary"
	"net/netip"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Set is a named set or map of the table.
type Set struct {
	Name      string
	Key       []nft.SetDatatype
	Data      []nft.SetDatatype // nil: a set; one TypeVerdict: a verdict map
	Intervals bool              // the last part of a key is a range
	// Family is whose addresses the keys hold; for those who want to know it of
	// an element.
	Family *Family
	// Limit is above 0 if packets fill the set, with timeouts, up to so many
	// elements: its contents are never looked at.
	Limit uint32
}

// Verdicts reports whether the set maps its keys to chains.
func (s *Set) Verdicts() bool { return s.Data != nil && s.Data[0] == nft.TypeVerdict }

// Element is one element of a set or map. Two elements of one slot are the
// same if they are equal.
type Element struct {
	Set   *Set
	Key   string
	Last  string // interval sets: the last key of the range
	Value string // data maps
	Chain string // verdict maps: where to go
}

// Slot is what identifies an element.
type Slot struct {
	Set *Set
	Key string
}

// Slot returns the element's identity.
func (e Element) Slot() Slot { return Slot{e.Set, e.Key} }

func (e Element) netlink() nft.SetElement {
	out := nft.SetElement{Key: []byte(e.Key), KeyEnd: []byte(e.Last), Val: []byte(e.Value)}
	if e.Chain != "" {
		out.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: e.Chain}
	}
	return out
}

// describe returns the set as the kernel is told of it.
func (c *Conn) describe(s *Set) *nft.Set {
	out := &nft.Set{
		Table: c.handle, Name: s.Name, KeyType: concat(s.Key), Concatenation: len(s.Key) > 1,
		Interval: s.Intervals, IsMap: s.Data != nil,
	}
	if s.Data != nil {
		out.DataType = concat(s.Data)
	}
	if s.Limit > 0 {
		out.Dynamic, out.HasTimeout, out.Size = true, true, s.Limit
	}
	return out
}

// concat is the type of a key or value made of parts. No set here has more
// parts than the kernel's type number has room for.
func concat(parts []nft.SetDatatype) nft.SetDatatype {
	if len(parts) == 1 {
		return parts[0]
	}
	return nft.MustConcatSetType(parts...)
}

// The encoders below append one part of a key, padded to a whole register.

// AppendAddr appends an address.
func AppendAddr(b []byte, a netip.Addr) []byte { return append(b, a.AsSlice()...) }

// AppendProtocol appends a transport protocol's number.
func AppendProtocol(b []byte, number byte) []byte { return append(b, number, 0, 0, 0) }

// AppendPort appends a port in network byte order.
func AppendPort(b []byte, port uint16) []byte {
	return append(binary.BigEndian.AppendUint16(b, port), 0, 0)
}

// AppendNumber appends a number in the machine's byte order.
func AppendNumber(b []byte, n uint32) []byte { return binary.NativeEndian.AppendUint32(b, n) }

// Interval returns the first and the last key of a prefix under a key prefix.
// The kernel takes both ends of a concatenated range as inclusive.
func Interval(key []byte, p netip.Prefix) (first, last string) {
	low := p.Masked().Addr()
	high := low.AsSlice()
	for bit := p.Bits(); bit < len(high)*8; bit++ {
		high[bit/8] |= 0x80 >> (bit % 8)
	}
	head := string(key)
	return head + string(low.AsSlice()), head + string(high)
}

// MergePrefixes drops the prefixes that lie inside another one: the kernel
// refuses ranges that overlap.
func MergePrefixes(prefixes []netip.Prefix) []netip.Prefix {
	var kept []netip.Prefix
	for i, p := range prefixes {
		covered := false
		for j, q := range prefixes {
			wider := q.Bits() < p.Bits() || q.Bits() == p.Bits() && j < i
			covered = covered || i != j && wider && q.Overlaps(p)
		}
		if !covered {
			kept = append(kept, p)
		}
	}
	return kept
}
