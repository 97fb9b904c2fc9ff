package ruleset

import (
	"net"
	"net/netip"

	nft "github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Registers. The kernel has sixteen of four bytes each; a concatenated key
// stands in consecutive ones, from First on.
const (
	Verdict = unix.NFT_REG_VERDICT
	First   = unix.NFT_REG32_00
)

// Family is one of the two address families: what differs between them in a rule.
type Family struct {
	Name      string // "ip4": prefix of chain and set names
	AddrWords uint32 // registers that an address takes
	AddrType  nft.SetDatatype

	proto        byte // NFPROTO_IPV4
	len          uint32
	saddr, daddr uint32 // offsets in the network header
	next, header uint32 // offset of the transport protocol's number in it, and its length
	icmp         byte
}

// The two families. Don't change them.
var (
	IPv4 = &Family{
		Name: "ip4", AddrWords: 1, AddrType: nft.TypeIPAddr,
		proto: unix.NFPROTO_IPV4, len: 4, saddr: 12, daddr: 16, next: 9, header: 20, icmp: unix.IPPROTO_ICMP,
	}
	IPv6 = &Family{
		Name: "ip6", AddrWords: 4, AddrType: nft.TypeIP6Addr,
		proto: unix.NFPROTO_IPV6, len: 16, saddr: 8, daddr: 24, next: 6, header: 40, icmp: unix.IPPROTO_ICMPV6,
	}
	Families = [...]*Family{IPv4, IPv6}
)

// FamilyOf returns the family.
func FamilyOf(v6 bool) *Family {
	if v6 {
		return IPv6
	}
	return IPv4
}

// LoadSource loads the packet's source address, LoadDestination its destination.
func (f *Family) LoadSource(reg uint32) expr.Any { return f.load(reg, f.saddr) }

// LoadDestination loads the packet's destination address.
func (f *Family) LoadDestination(reg uint32) expr.Any { return f.load(reg, f.daddr) }

func (f *Family) load(reg, offset uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.len}
}

// LoadFrontend loads destination address . protocol . destination port.
func (f *Family) LoadFrontend(reg uint32) []expr.Any {
	return One(
		f.LoadDestination(reg),
		LoadProtocol(reg+f.AddrWords),
		LoadPort(reg+f.AddrWords+1))
}

// LoadProtocol loads the transport protocol's number.
func LoadProtocol(reg uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg} }

// LoadPort loads the destination port, which stands at the same place in TCP,
// UDP and SCTP.
func LoadPort(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// LoadQuotedFrontend loads source address . protocol . source port of the
// packet that an ICMP error quotes: whom the error is for. A packet with IP
// options is not understood.
func (f *Family) LoadQuotedFrontend(reg uint32) []expr.Any {
	const quote = 8 // offset in ICMP
	inQuote := func(reg, offset, length uint32) expr.Any {
		return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: quote + offset, Len: length}
	}
	return One(inQuote(reg, f.saddr, f.len), inQuote(reg+f.AddrWords, f.next, 1), inQuote(reg+f.AddrWords+1, f.header, 2))
}

// IfICMP leaves the rule unless the packet is of the family's ICMP.
func (f *Family) IfICMP() []expr.Any { return IfProtocol(f.icmp) }

// IfNew leaves the rule unless nobody has answered on the packet's connection.
func IfNew() []expr.Any { return ifConnection(expr.CtKeySTATE, expr.CtStateBitNEW) }

// IfRelated leaves the rule unless the packet is an error about a connection.
func IfRelated() []expr.Any { return ifConnection(expr.CtKeySTATE, expr.CtStateBitRELATED) }

// ifConnection leaves the rule unless the connection has the bit there.
func ifConnection(where expr.CtKey, bit uint32) []expr.Any {
	return One(&expr.Ct{Key: where, Register: First}, bitwise(bit, 0), Equals(binaryutil.NativeEndian.PutUint32(bit)))
}

// IfTranslated leaves the rule unless the connection's destination was translated.
func IfTranslated() []expr.Any {
	const statusDNAT = 1 << 5 // IPS_DST_NAT
	return ifConnection(expr.CtKeySTATUS, statusDNAT)
}

// IfKnown leaves the rule on the first packet of a connection, that is until one
// has gone its whole way.
func IfKnown() []expr.Any { return ifConnection(expr.CtKeySTATUS, statusConfirmed) }

// IfUnknown leaves the rule unless the packet is the first of its connection.
func IfUnknown() []expr.Any {
	return One(&expr.Ct{Key: expr.CtKeySTATUS, Register: First}, bitwise(statusConfirmed, 0), Equals(make([]byte, 4)))
}

const statusConfirmed = 1 << 3 // IPS_CONFIRMED

// AddrLen is the number of bytes of an address.
func (f *Family) AddrLen() int { return int(f.len) }

// FrontendWords is the number of registers that a frontend takes.
func (f *Family) FrontendWords() uint32 { return f.AddrWords + 2 }

// IfFamily leaves the rule unless the packet is of the family.
func (f *Family) IfFamily() []expr.Any {
	return One(&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: First}, Equals([]byte{f.proto}))
}

// IfSource leaves the rule unless the source address is in the network.
func (f *Family) IfSource(network netip.Prefix) []expr.Any {
	return f.ifIn(network, f.LoadSource(First))
}

// IfDestination leaves the rule unless the destination address is in the network.
func (f *Family) IfDestination(network netip.Prefix) []expr.Any {
	return f.ifIn(network, f.LoadDestination(First))
}

func (f *Family) ifIn(network netip.Prefix, load expr.Any) []expr.Any {
	return One(load,
		&expr.Bitwise{
			SourceRegister: First, DestRegister: First, Len: f.len,
			Mask: net.CIDRMask(network.Bits(), int(f.len)*8), Xor: make([]byte, f.len),
		},
		Equals(network.Masked().Addr().AsSlice()))
}

// IfProtocol leaves the rule unless the packet is of the transport protocol.
func IfProtocol(number byte) []expr.Any {
	return One(LoadProtocol(First), Equals([]byte{number}))
}

// IfInterface leaves the rule unless the name of the interface that the packet
// came in by begins with the prefix.
func IfInterface(prefix string) []expr.Any {
	return One(&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: First}, Equals([]byte(prefix)))
}

// IfFromThisNode leaves the rule unless the source address is one of this node's.
func IfFromThisNode() []expr.Any {
	return One(
		&expr.Fib{Register: First, FlagSADDR: true, ResultADDRTYPE: true},
		Equals(binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)))
}

// IfToServer leaves the rule unless the packet goes the way that the first one
// of its connection went.
func IfToServer() []expr.Any {
	const original = 0 // IP_CT_DIR_ORIGINAL
	return One(&expr.Ct{Key: expr.CtKeyDIRECTION, Register: First}, Equals([]byte{original}))
}

// IfMarked leaves the rule unless the packet's mark has all the bits.
func IfMarked(bits uint32) []expr.Any {
	return One(
		&expr.Meta{Key: expr.MetaKeyMARK, Register: First},
		bitwise(bits, 0),
		Equals(binaryutil.NativeEndian.PutUint32(bits)))
}

// ChangeMark clears bits of the mark, then sets others.
func ChangeMark(clear, set uint32) []expr.Any {
	return One(
		&expr.Meta{Key: expr.MetaKeyMARK, Register: First},
		bitwise(^(clear|set), set),
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: First})
}

func bitwise(mask, xor uint32) expr.Any {
	return &expr.Bitwise{
		SourceRegister: First, DestRegister: First, Len: 4,
		Mask: binaryutil.NativeEndian.PutUint32(mask), Xor: binaryutil.NativeEndian.PutUint32(xor),
	}
}

// Equals leaves the rule unless the first register holds the data.
func Equals(data []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: First, Data: data}
}

// InSet leaves the rule unless the set has the key that the first register begins.
func InSet(s *Set) expr.Any { return &expr.Lookup{SourceRegister: First, SetName: s.Name} }

// LookUp stores in dest what the map has for the key that the first register
// begins, and leaves the rule if it has nothing.
func LookUp(s *Set, dest uint32) expr.Any {
	return &expr.Lookup{SourceRegister: First, DestRegister: dest, IsDestRegSet: true, SetName: s.Name}
}

// Constant loads bytes that the rule itself holds.
func Constant(reg uint32, data []byte) expr.Any { return &expr.Immediate{Register: reg, Data: data} }

// GoTo continues in another chain and does not come back.
func GoTo(chain string) expr.Any { return &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain} }

// Jump continues in another chain and may come back.
func Jump(chain string) expr.Any { return &expr.Verdict{Kind: expr.VerdictJump, Chain: chain} }

// Return goes back to the chain that jumped here.
func Return() expr.Any { return &expr.Verdict{Kind: expr.VerdictReturn} }

// Drop drops the packet.
func Drop() expr.Any { return &expr.Verdict{Kind: expr.VerdictDrop} }

// Reset answers with a TCP reset.
func Reset() expr.Any { return &expr.Reject{Type: unix.NFT_REJECT_TCP_RST} }

// Unreachable answers with ICMP port unreachable.
func Unreachable() expr.Any {
	return &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}
}

// Translate sends the connection to the address and port in the registers.
func (f *Family) Translate(reg uint32) expr.Any {
	return &expr.NAT{
		Type: expr.NATTypeDestNAT, Family: uint32(f.proto),
		RegAddrMin: reg, RegProtoMin: reg + f.AddrWords, Specified: true,
	}
}

// Masquerade gives the packet an address of this node as its source.
func Masquerade() expr.Any { return &expr.Masq{FullyRandom: true} }
