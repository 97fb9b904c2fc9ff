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
	// PeerAddrs are the addresses of the cluster's other nodes, sorted: none of
	// them may be captured as an external address (P-27, I-03).
	PeerAddrs []netip.Addr
	// ServiceCIDRs are the ranges that cluster addresses come from; empty if
	// unknown. An address in them that no service has is refused (F-16).
	ServiceCIDRs []netip.Prefix

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
		slices.Equal(n.PeerAddrs, o.PeerAddrs) && slices.Equal(n.ServiceCIDRs, o.ServiceCIDRs) &&
		n.Detector.InterfacePrefix == o.Detector.InterfacePrefix && slices.Equal(n.Detector.CIDRs, o.Detector.CIDRs)
}

// family returns the addresses of one family, in their order.
func family(addrs []netip.Addr, v6 bool) []netip.Addr {
	var list []netip.Addr
	for _, a := range addrs {
		if a.Is6() == v6 {
			list = append(list, a)
		}
	}
	return list
}
