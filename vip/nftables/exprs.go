package nftables

import (
	"net"
	"net/netip"
	"time"

	nft "github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"signpost/discovery"
)

// Registers. The kernel has sixteen of four bytes each; a concatenated key
// stands in consecutive ones.
const (
	verdictRegister = unix.NFT_REG_VERDICT
	firstRegister   = unix.NFT_REG32_00
)

// family is one of the two address families: what differs between them in a rule.
type family struct {
	name      string // "ip4": prefix of chain and set names
	proto     byte   // NFPROTO_IPV4
	addrWords uint32 // registers that an address takes
	addrLen   uint32 // bytes of an address
	saddr     uint32 // offset of the source address in the network header
	daddr     uint32
	addrType  nft.SetDatatype
}

var (
	ip4 = &family{
		name: "ip4", proto: unix.NFPROTO_IPV4, addrWords: 1, addrLen: 4, saddr: 12, daddr: 16,
		addrType: nft.TypeIPAddr,
	}
	ip6 = &family{
		name: "ip6", proto: unix.NFPROTO_IPV6, addrWords: 4, addrLen: 16, saddr: 8, daddr: 24,
		addrType: nft.TypeIP6Addr,
	}
	families = [...]*family{ip4, ip6}
)

func familyOf(v6 bool) *family {
	if v6 {
		return ip6
	}
	return ip4
}

// loadSource loads the packet's source address.
func (f *family) loadSource(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: f.saddr, Len: f.addrLen}
}

// loadDestination loads the packet's destination address.
func (f *family) loadDestination(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: f.daddr, Len: f.addrLen}
}

// loadProtocol loads the transport protocol's number.
func loadProtocol(reg uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg} }

// loadPort loads the destination port, which stands at the same place in TCP,
// UDP and SCTP.
func loadPort(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// loadConstant loads bytes that the rule itself holds.
func loadConstant(reg uint32, data []byte) expr.Any {
	return &expr.Immediate{Register: reg, Data: data}
}

// randomIndex loads a random number below n, in host byte order.
func randomIndex(reg uint32, n int) expr.Any {
	return &expr.Numgen{Register: reg, Modulus: uint32(n), Type: unix.NFT_NG_RANDOM}
}

// inSet leaves the rule unless the set has the key that the first register begins.
func inSet(set *set) expr.Any {
	return &expr.Lookup{SourceRegister: firstRegister, SetName: set.name}
}

// lookUp stores what the map has for the key, and leaves the rule if it has nothing.
func lookUp(set *set, key, dest uint32) expr.Any {
	return &expr.Lookup{SourceRegister: key, DestRegister: dest, IsDestRegSet: true, SetName: set.name}
}

// remember adds a key to a dynamic set for a time, or renews the one that is
// there. When the set is full it leaves the rule.
func remember(set *set, key uint32, timeout time.Duration) expr.Any {
	return &expr.Dynset{SrcRegKey: key, SetName: set.name, Operation: uint32(unix.NFT_DYNSET_OP_UPDATE), Timeout: timeout}
}

// equals leaves the rule unless the first register holds the data.
func equals(data []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: firstRegister, Data: data}
}

// ifFamily leaves the rule unless the packet is of the family.
func ifFamily(f *family) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: firstRegister}, equals([]byte{f.proto})}
}

// ifProtocol leaves the rule unless the packet is of the protocol.
func ifProtocol(protocol byte) []expr.Any {
	return []expr.Any{loadProtocol(firstRegister), equals([]byte{protocol})}
}

// ifFromThisNode leaves the rule unless the source address is one of this node's.
func ifFromThisNode() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: firstRegister, FlagSADDR: true, ResultADDRTYPE: true},
		equals(binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)),
	}
}

// ifSource leaves the rule unless the source address is in the network,
// ifDestination unless the destination is.
func (f *family) ifSource(network netip.Prefix) []expr.Any {
	return f.ifIn(network, f.loadSource(firstRegister))
}

func (f *family) ifDestination(network netip.Prefix) []expr.Any {
	return f.ifIn(network, f.loadDestination(firstRegister))
}

func (f *family) ifIn(network netip.Prefix, load expr.Any) []expr.Any {
	return []expr.Any{
		load,
		&expr.Bitwise{
			SourceRegister: firstRegister, DestRegister: firstRegister, Len: f.addrLen,
			Mask: net.CIDRMask(network.Bits(), int(f.addrLen)*8), Xor: make([]byte, f.addrLen),
		},
		equals(network.Masked().Addr().AsSlice()),
	}
}

// ifInterface leaves the rule unless the name of the interface that the packet
// came in by begins with the prefix.
func ifInterface(prefix string) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: firstRegister}, equals([]byte(prefix))}
}

// ifMarked leaves the rule unless the packet carries the masquerade mark.
func ifMarked() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: firstRegister},
		&expr.Bitwise{
			SourceRegister: firstRegister, DestRegister: firstRegister, Len: 4,
			Mask: markBytes(masqueradeMark), Xor: markBytes(0),
		},
		equals(markBytes(masqueradeMark)),
	}
}

// setMark sets the masquerade mark, clearMark takes it away; both leave the
// mark's other bits as they are.
func setMark() []expr.Any   { return changeMark(masqueradeMark) }
func clearMark() []expr.Any { return changeMark(0) }

func changeMark(bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: firstRegister},
		&expr.Bitwise{
			SourceRegister: firstRegister, DestRegister: firstRegister, Len: 4,
			Mask: markBytes(^uint32(masqueradeMark)), Xor: markBytes(bits),
		},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: firstRegister},
	}
}

func markBytes(mark uint32) []byte { return binaryutil.NativeEndian.PutUint32(mark) }

// masquerade replaces the source by this node's address and a random port.
func masquerade() expr.Any { return &expr.Masq{FullyRandom: true} }

// translate sends the connection to the address and port in the registers.
func (f *family) translate(reg uint32) expr.Any {
	return &expr.NAT{
		Type: expr.NATTypeDestNAT, Family: uint32(f.proto),
		RegAddrMin: reg, RegProtoMin: reg + f.addrWords, Specified: true,
	}
}

func goTo(chain string) expr.Any   { return &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain} }
func jumpTo(chain string) expr.Any { return &expr.Verdict{Kind: expr.VerdictJump, Chain: chain} }
func drop() expr.Any               { return &expr.Verdict{Kind: expr.VerdictDrop} }

// resetTCP answers with a TCP reset, unreachable with ICMP port unreachable.
func resetTCP() expr.Any { return &expr.Reject{Type: unix.NFT_REJECT_TCP_RST} }

func unreachable() expr.Any {
	return &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}
}

var protocolNumbers = [...]byte{discovery.TCP: unix.IPPROTO_TCP, discovery.UDP: unix.IPPROTO_UDP, discovery.SCTP: unix.IPPROTO_SCTP}
