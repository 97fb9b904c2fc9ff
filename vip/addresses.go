package vip

import (
	"iter"
	"net/netip"

	"signpost/discovery"
)

// Kinds is a set of [Kind].
type Kinds uint8

// Has reports whether the set holds the kind.
func (k Kinds) Has(kind Kind) bool { return k&(1<<kind) != 0 }

// Captured reports whether ports of the address that no service asks for are
// refused (F-16): only cluster addresses are the dataplane's as a whole. Other
// ports of an external or load-balancer address belong to whoever has the
// address (F-07).
func (k Kinds) Captured() bool { return k.Has(KindClusterIP) }

// AddrChange is how the use of an address differs between two states.
type AddrChange struct{ Before, After Kinds }

// Kinds returns the kinds of the virtual servers at an address; none: it is no
// virtual address. The unspecified addresses stand for the node ports.
func (s *State) Kinds(a netip.Addr) Kinds {
	c, _ := s.claimed().Get(a)
	return c.kinds()
}

// AddrChanges yields every address whose kinds differ between two states, in
// order: the addresses to bind, to guard and to let go. Before may be nil: the
// empty state. The cost follows the change.
func AddrChanges(before, after *State) iter.Seq2[netip.Addr, AddrChange] {
	return func(yield func(netip.Addr, AddrChange) bool) {
		more := true
		discovery.DiffAddrs(before.claimed(), after.claimed(), func(a addr, old, now *claims) {
			change := AddrChange{Before: old.kinds(), After: now.kinds()}
			if more && change.Before != change.After {
				more = yield(a, change)
			}
		})
	}
}

func (c *claims) kinds() Kinds {
	var k Kinds
	for v := range c.winners {
		k |= 1 << v.Kind
	}
	return k
}
