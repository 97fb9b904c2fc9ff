package vip

import (
	"net/netip"
	"slices"
)

// Node is what planning and the backends know about the machine that they run
// on. It is immutable: the same pointer means that nothing changed.
type Node struct {
	Name string
	Zone string // empty: unknown

	// Addrs are this node's addresses per family, primary first: the Node
	// object's, else those of the interfaces. Empty per family: no such family.
	Addrs []netip.Addr
	// NodePortAddrs are the local addresses on which node ports answer (P-22).
	NodePortAddrs []netip.Addr

	Detector      Detector
	MasqueradeAll bool // SNAT all traffic to cluster addresses (P-14)
}

// Detector tells pods' packets from others (P-20). The zero value can't tell:
// then nobody counts as a pod.
type Detector struct {
	CIDRs           []netip.Prefix // the source address is in one of these
	InterfacePrefix string         // or the packet came in by an interface with this prefix
}

// None reports whether the detector can't tell pods from others.
func (d Detector) None() bool { return len(d.CIDRs) == 0 && d.InterfacePrefix == "" }

// Equal reports whether two nodes are the same to planning and to a backend.
func (n *Node) Equal(o *Node) bool {
	if n == o {
		return true
	}
	if n == nil || o == nil {
		return false
	}
	return n.Name == o.Name && n.Zone == o.Zone && n.MasqueradeAll == o.MasqueradeAll &&
		slices.Equal(n.Addrs, o.Addrs) && slices.Equal(n.NodePortAddrs, o.NodePortAddrs) &&
		n.Detector.InterfacePrefix == o.Detector.InterfacePrefix && slices.Equal(n.Detector.CIDRs, o.Detector.CIDRs)
}
