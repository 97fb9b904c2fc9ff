package iptables

import (
	"cmp"
	"fmt"
	"net/netip"

	"signpost/discovery"
	"signpost/vip"
)

// The tree of chains by which a packet finds its virtual server.
const (
	treeBits = 5
	fanOut   = 1 << treeBits
	// portBlock is the number of node ports that share a chain.
	portBlock = 1 << treeBits
)

// kind says what a group holds.
type kind uint8

const (
	services kind = iota // virtual servers by address
	nodePorts
	hairpins // endpoints that may run on this node
)

// group is a leaf of a tree: what is compiled and written together. It is
// comparable.
type group struct {
	kind     kind
	branch   uint16             // services, hairpins: the address's lowest bits
	leaf     uint16             // services: the next bits; node ports: the block
	protocol discovery.Protocol // node ports
}

// groupOf returns the group that a virtual server belongs to.
func groupOf(f vip.Frontend) group {
	if f.IsNodePort() {
		return group{kind: nodePorts, leaf: f.Port / portBlock, protocol: f.Protocol}
	}
	bits := lowBits(f.Addr)
	return group{kind: services, branch: bits % fanOut, leaf: bits / fanOut % fanOut}
}

func hairpinGroup(a netip.Addr) group {
	return group{kind: hairpins, branch: lowBits(a) % fanOut}
}

func lowBits(a netip.Addr) uint16 {
	b := a.AsSlice()
	return uint16(b[len(b)-2])<<8 | uint16(b[len(b)-1])
}

func (g group) compare(o group) int {
	return cmp.Or(cmp.Compare(g.kind, o.kind), cmp.Compare(g.protocol, o.protocol),
		cmp.Compare(g.branch, o.branch), cmp.Compare(g.leaf, o.leaf))
}

// chain is the name of the group's chain.
func (g group) chain() string {
	switch g.kind {
	case nodePorts:
		return fmt.Sprintf("SIGNPOST-N-%s-%d", protocolName(g.protocol), g.leaf*portBlock)
	case hairpins:
		return fmt.Sprintf("SIGNPOST-H-%02x", g.branch)
	default:
		return fmt.Sprintf("%s-%02x", g.branchChain(), g.leaf)
	}
}

// branchChain is the name of the chain that leads to the group's.
func (g group) branchChain() string { return fmt.Sprintf("SIGNPOST-S-%02x", g.branch) }

// family is what differs between the two address families.
type family struct {
	v6      bool
	bits    int
	refusal string // what REJECT sends if not a TCP reset
	mask    string // for recent: the whole address
}

var (
	ip4 = &family{bits: 32, refusal: "icmp-port-unreachable", mask: "255.255.255.255"}
	ip6 = &family{v6: true, bits: 128, refusal: "icmp6-port-unreachable", mask: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}
)

// name is the family's name in messages.
func (f *family) name() string {
	if f.v6 {
		return "IPv6"
	}
	return "IPv4"
}

// lowest returns the address and mask that match the tree's bits from shift on.
func (f *family) lowest(value uint16, shift int) string {
	return f.low(value<<shift) + "/" + f.low((fanOut-1)<<shift)
}

func (f *family) low(bits uint16) string {
	var b [16]byte
	b[14], b[15] = byte(bits>>8), byte(bits)
	if f.v6 {
		return netip.AddrFrom16(b).String()
	}
	return netip.AddrFrom4([4]byte(b[12:])).String()
}

// host returns the address with its full prefix length.
func host(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

// own returns the addresses of the family.
func (f *family) own(addrs []netip.Addr) []netip.Addr {
	var list []netip.Addr
	for _, a := range addrs {
		if a.Is6() == f.v6 {
			list = append(list, a)
		}
	}
	return list
}

// ownPrefixes returns the networks of the family.
func (f *family) ownPrefixes(prefixes []netip.Prefix) []netip.Prefix {
	var list []netip.Prefix
	for _, p := range prefixes {
		if p.Addr().Is6() == f.v6 {
			list = append(list, p.Masked())
		}
	}
	return list
}

func protocolName(p discovery.Protocol) string {
	return [...]string{discovery.TCP: "tcp", discovery.UDP: "udp", discovery.SCTP: "sctp"}[p]
}
