package ruleset

import (
	"encoding/binary"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// IfStray leaves the rule unless the packet is a TCP segment in the middle of a
// connection that connection tracking can't place: it is outside of the window,
// say. Nobody translates it (B56). Segments that begin a connection or refuse one
// are left out: they may belong to one of whose packets only some come by here.
func IfStray() []expr.Any {
	const (
		flagsAt  = 13
		synOrRst = 0x02 | 0x04
	)
	return append(IfProtocol(unix.IPPROTO_TCP), append(
		ifConnection(expr.CtKeySTATE, expr.CtStateBitINVALID),
		&expr.Payload{DestRegister: First, Base: expr.PayloadBaseTransportHeader, Offset: flagsAt, Len: 1},
		&expr.Bitwise{SourceRegister: First, DestRegister: First, Len: 1, Mask: []byte{synOrRst}, Xor: []byte{0}},
		Equals([]byte{0}))...)
}

// LoadSourcePort loads the source port, which stands at the same place in TCP,
// UDP and SCTP.
func LoadSourcePort(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 2}
}

// DropStrays drops the strays that come from a port in the set.
func DropStrays(f *Family, ports *Set) Rule {
	return NewRule("nobody translates it: the client would reset its connection", f.IfFamily(), IfStray(),
		One(LoadSourcePort(First), InSet(ports), Drop()))
}

// PortElements are the elements of a set of ports.
func PortElements(set *Set, ports []uint16) []Element {
	elements := make([]Element, len(ports))
	for i, port := range ports {
		elements[i] = Element{Set: set, Key: string(binary.BigEndian.AppendUint16(nil, port))}
	}
	return elements
}
