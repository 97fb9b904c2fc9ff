package dataplane

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"signpost/discovery"
	"signpost/vip"
)

// NodeConfig is what the Corefile says about this machine.
type NodeConfig struct {
	Name            string
	Mode            string // of the backend in use
	ClusterCIDRs    []netip.Prefix
	InterfacePrefix string
	MasqueradeAll   bool
	// Primary gives node ports on the node's primary addresses only;
	// NodePortAddresses on the local ones in these networks. With neither it
	// is as kube-proxy does it in that mode (P-22).
	Primary           bool
	NodePortAddresses []netip.Prefix
}

// Node describes this machine to planning: from its Node object if there is
// one, else from its own addresses (P-21).
func (c NodeConfig) Node(snapshot *discovery.Snapshot, local []netip.Addr) *vip.Node {
	node := &vip.Node{
		Name: c.Name, Addrs: primaryFirst(local), MasqueradeAll: c.MasqueradeAll,
		Detector: vip.Detector{CIDRs: c.ClusterCIDRs, InterfacePrefix: c.InterfacePrefix},
	}
	if object := snapshot.Nodes[c.Name]; object != nil {
		node.Zone = object.Zone
		if len(object.Addrs) > 0 {
			node.Addrs = object.Addrs
		}
	}
	if c.Primary || (c.Mode == "nftables" && len(c.NodePortAddresses) == 0) {
		node.NodePortAddrs = primaries(node.Addrs)
		return node
	}
	for _, a := range local {
		if c.answersNodePorts(a) {
			node.NodePortAddrs = append(node.NodePortAddrs, a)
		}
	}
	return node
}

// answersNodePorts says whether node ports answer on a local address. A family
// without a network of its own has all its addresses, as with kube-proxy.
func (c NodeConfig) answersNodePorts(a netip.Addr) bool {
	if a.Is6() && (a.IsLoopback() || a.IsLinkLocalUnicast()) {
		return false
	}
	ofFamily := false
	for _, network := range c.NodePortAddresses {
		ofFamily = ofFamily || network.Addr().Is4() == a.Is4()
		if network.Contains(a) {
			return true
		}
	}
	if ofFamily {
		return false
	}
	// kube-proxy has node ports on the IPv4 loopback in iptables mode alone
	// (O-05); a process can listen there in any case.
	return !a.IsLoopback() || c.Mode == "iptables" || c.Mode == "userspace"
}

// primaryFirst orders a machine's addresses: those that others can reach come
// first; the loopback address is the last resort.
func primaryFirst(local []netip.Addr) []netip.Addr {
	var reachable, loopback []netip.Addr
	for _, a := range local {
		switch {
		case a.IsGlobalUnicast():
			reachable = append(reachable, a)
		case a.IsLoopback():
			loopback = append(loopback, a)
		}
	}
	if len(reachable) == 0 {
		return loopback
	}
	return reachable
}

// primaries returns the first address of each family.
func primaries(addrs []netip.Addr) []netip.Addr {
	var first []netip.Addr
	for _, is4 := range []bool{true, false} {
		if at := slices.IndexFunc(addrs, func(a netip.Addr) bool { return a.Is4() == is4 }); at >= 0 {
			first = append(first, addrs[at])
		}
	}
	return first
}

// LocalAddrs returns the addresses of this machine's interfaces.
func LocalAddrs() ([]netip.Addr, error) {
	networks, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing this machine's addresses: %w", err)
	}
	addrs := make([]netip.Addr, 0, len(networks))
	for _, n := range networks {
		if network, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, network.Addr().Unmap())
		}
	}
	return addrs, nil
}
