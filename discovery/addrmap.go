package discovery

import (
	"iter"
	"math/bits"
	"net/netip"
	"slices"
)

// AddrMap is an immutable map from IP address to V. Its zero value is empty.
//
// It is a trie over the address's nibbles (8 for IPv4, 32 for IPv6) whose
// nodes keep only the children that exist. Set and Delete copy the nodes on
// the way to the address and share the rest. The inner nodes are just the
// names between an address and its reverse zone, which lets DNS tell an empty
// non-terminal from a name that does not exist (RFC 8020; dns-requirements R7).
type AddrMap[V any] struct {
	v4, v6 *trieNode[V]
	count  int
}

// trieNode is one nibble's choice. At full depth it holds the value.
type trieNode[V any] struct {
	present  uint16 // bit n: there is a child for nibble n
	children []*trieNode[V]
	value    V
}

// Len returns the number of addresses.
func (m AddrMap[V]) Len() int { return m.count }

// Get returns the value for the address and whether there is one. The zone of
// an IPv6 address is ignored; an IPv4-mapped address is its IPv4 address.
func (m AddrMap[V]) Get(a netip.Addr) (V, bool) {
	a = a.Unmap()
	if n := m.find(a, a.BitLen()); n != nil {
		return n.value, true
	}
	var zero V
	return zero, false
}

// Covers reports whether the map has an address inside the prefix. The
// prefix's length is rounded down to a multiple of 4; an IPv4-mapped prefix of
// at least 96 bits is its IPv4 prefix.
func (m AddrMap[V]) Covers(p netip.Prefix) bool {
	a, length := p.Addr(), p.Bits()
	if a.Is4In6() && length >= mappedBits {
		a, length = a.Unmap(), length-mappedBits
	}
	return m.find(a, length) != nil
}

func (m AddrMap[V]) find(a netip.Addr, length int) *trieNode[V] {
	n := m.root(a)
	bytes, offset := nibbles(a)
	for i := 0; i < length/4 && n != nil; i++ {
		n = n.child(nibble(&bytes, offset+i))
	}
	return n
}

func (m AddrMap[V]) root(a netip.Addr) *trieNode[V] {
	switch {
	case a.Is4():
		return m.v4
	case a.Is6():
		return m.v6
	default:
		return nil
	}
}

// Set returns a map that has the value at the address.
func (m AddrMap[V]) Set(a netip.Addr, v V) AddrMap[V] {
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return m
	}
	if m.find(a, a.BitLen()) == nil {
		m.count++
	}
	bytes, offset := nibbles(a)
	return m.withRoot(a, m.root(a).set(&bytes, offset, v))
}

// Delete returns a map without the address.
func (m AddrMap[V]) Delete(a netip.Addr) AddrMap[V] {
	a = a.Unmap().WithZone("")
	if m.find(a, a.BitLen()) == nil {
		return m
	}
	m.count--
	bytes, offset := nibbles(a)
	return m.withRoot(a, m.root(a).remove(&bytes, offset))
}

func (m AddrMap[V]) withRoot(a netip.Addr, root *trieNode[V]) AddrMap[V] {
	if a.Is4() {
		m.v4 = root
	} else {
		m.v6 = root
	}
	return m
}

// All yields every address with its value: IPv4 first, each family in
// ascending order.
func (m AddrMap[V]) All() iter.Seq2[netip.Addr, V] {
	return func(yield func(netip.Addr, V) bool) {
		var path [16]byte
		if m.v4.walk(&path, v4Offset, yield) {
			path = [16]byte{}
			m.v6.walk(&path, 0, yield)
		}
	}
}

// DiffAddrs calls changed for each address whose value differs between two
// maps, in the order of [AddrMap.All]. Values are compared with ==; shared
// parts are skipped. A missing value is V's zero value.
func DiffAddrs[V comparable](before, after AddrMap[V], changed func(a netip.Addr, before, after V)) {
	var path [16]byte
	diffNodes(before.v4, after.v4, &path, v4Offset, changed)
	path = [16]byte{}
	diffNodes(before.v6, after.v6, &path, 0, changed)
}

// An address is handled as 32 nibbles; an IPv4 address as the last 8.
const (
	depth      = 32
	v4Offset   = depth - 8
	mappedBits = 96 // what stands before the IPv4 address in an IPv4-mapped one
)

func nibbles(a netip.Addr) (bytes [16]byte, offset int) {
	if a.Is4() {
		four := a.As4()
		copy(bytes[12:], four[:])
		return bytes, v4Offset
	}
	return a.As16(), 0
}

func nibble(b *[16]byte, i int) uint16 {
	if i%2 == 0 {
		return uint16(b[i/2] >> 4)
	}
	return uint16(b[i/2] & 0x0f)
}

func setNibble(b *[16]byte, i int, n uint16) {
	if i%2 == 0 {
		b[i/2] = b[i/2]&0x0f | byte(n<<4)
	} else {
		b[i/2] = b[i/2]&0xf0 | byte(n)
	}
}

// addr is the address whose nibbles b holds; isV4 tells the families apart.
func addr(b *[16]byte, isV4 bool) netip.Addr {
	if isV4 {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(*b)
}

func (n *trieNode[V]) child(nib uint16) *trieNode[V] {
	if n == nil || n.present&(1<<nib) == 0 {
		return nil
	}
	return n.children[n.index(nib)]
}

// index is the place in children of a nibble's child, present or to come.
func (n *trieNode[V]) index(nib uint16) int {
	return bits.OnesCount16(n.present & (1<<nib - 1))
}

func (n *trieNode[V]) set(b *[16]byte, i int, v V) *trieNode[V] {
	if i == depth {
		return &trieNode[V]{value: v}
	}
	nib := nibble(b, i)
	next := &trieNode[V]{}
	if n != nil {
		next.present = n.present
		next.children = n.children
	}
	child := n.child(nib).set(b, i+1, v)
	at := next.index(nib)
	if next.present&(1<<nib) != 0 {
		next.children = slices.Clone(next.children)
		next.children[at] = child
		return next
	}
	grown := make([]*trieNode[V], len(next.children)+1)
	copy(grown, next.children[:at])
	grown[at] = child
	copy(grown[at+1:], next.children[at:])
	next.children, next.present = grown, next.present|1<<nib
	return next
}

// remove returns the node without the address, or nil if nothing is left.
// The address is in it.
func (n *trieNode[V]) remove(b *[16]byte, i int) *trieNode[V] {
	if i == depth {
		return nil
	}
	nib := nibble(b, i)
	at := n.index(nib)
	child := n.children[at].remove(b, i+1)
	if child == nil && len(n.children) == 1 {
		return nil
	}
	next := &trieNode[V]{present: n.present, children: slices.Clone(n.children)}
	if child != nil {
		next.children[at] = child
		return next
	}
	next.children = slices.Delete(next.children, at, at+1)
	next.present &^= 1 << nib
	return next
}

func (n *trieNode[V]) walk(path *[16]byte, i int, yield func(netip.Addr, V) bool) bool {
	return n.walkFrom(path, i, i == v4Offset, yield)
}

func (n *trieNode[V]) walkFrom(path *[16]byte, i int, isV4 bool, yield func(netip.Addr, V) bool) bool {
	if n == nil {
		return true
	}
	if i == depth {
		return yield(addr(path, isV4), n.value)
	}
	for nib := range uint16(16) {
		if child := n.child(nib); child != nil {
			setNibble(path, i, nib)
			if !child.walkFrom(path, i+1, isV4, yield) {
				return false
			}
		}
	}
	return true
}

func diffNodes[V comparable](before, after *trieNode[V], path *[16]byte, i int, changed func(netip.Addr, V, V)) {
	diffFrom(before, after, path, i, i == v4Offset, changed)
}

func diffFrom[V comparable](before, after *trieNode[V], path *[16]byte, i int, isV4 bool, changed func(netip.Addr, V, V)) {
	if before == after {
		return
	}
	if i == depth {
		was, now := before.leaf(), after.leaf()
		if was != now {
			changed(addr(path, isV4), was, now)
		}
		return
	}
	for nib := range uint16(16) {
		old, now := before.child(nib), after.child(nib)
		if old == now {
			continue
		}
		setNibble(path, i, nib)
		diffFrom(old, now, path, i+1, isV4, changed)
	}
}

func (n *trieNode[V]) leaf() V {
	if n == nil {
		var zero V
		return zero
	}
	return n.value
}
