package viptest

import (
	"fmt"
	"net/netip"
	"slices"

	"signpost/vip"
)

// Packet is the first packet of a connection, as this node sees it.
type Packet struct {
	// Source is where it comes from; From has to fit: a pod's address, one of
	// the node's, or another.
	Source vip.Source
	From   netip.Addr
	// To is the address, port and protocol that the client connects to. For a
	// node port it is a node's address, never the unspecified one.
	To vip.Frontend
}

// String returns "pod 172.16.1.2 -> 10.96.0.1:443/TCP".
func (p Packet) String() string { return fmt.Sprintf("%s %s -> %s", p.Source, p.From, p.To) }

// Action is what a dataplane does with a packet.
type Action uint8

const (
	// Pass leaves it to the node: it is none of the dataplane's business.
	Pass Action = iota
	// Forward sends it to an endpoint.
	Forward
	// Reject answers that nobody is there.
	Reject
	// Drop says nothing.
	Drop
)

// String returns the action's name in lower case.
func (a Action) String() string { return [...]string{"pass", "forward", "reject", "drop"}[a] }

// Outcome is what a state means for a packet: the action and, when it is
// [Forward], who may answer.
type Outcome struct {
	Action    Action
	Endpoints []netip.AddrPort
	SNAT      bool // whichever endpoint it is; see Masquerades
}

// String returns "forward to [172.16.1.2:80 172.16.1.3:80]+snat", or the action
// alone.
func (o Outcome) String() string {
	switch {
	case o.Action != Forward:
		return o.Action.String()
	case o.SNAT:
		return fmt.Sprintf("forward to %v+snat", o.Endpoints)
	default:
		return fmt.Sprintf("forward to %v", o.Endpoints)
	}
}

// Masquerades reports whether the endpoint sees a source other than the
// packet's: a client that reaches itself is always masqueraded (P-15).
func (o Outcome) Masquerades(p Packet, endpoint netip.AddrPort) bool {
	return o.SNAT || p.From == endpoint.Addr()
}

// Result is what a dataplane did with one packet.
type Result struct {
	Action   Action
	Endpoint netip.AddrPort // valid if Action is Forward
	SNAT     bool           // the endpoint saw another source than Packet.From
}

// String returns "forward to 172.16.1.2:80+snat", or the action alone.
func (r Result) String() string {
	switch {
	case r.Action != Forward:
		return r.Action.String()
	case r.SNAT:
		return fmt.Sprintf("forward to %s+snat", r.Endpoint)
	default:
		return fmt.Sprintf("forward to %s", r.Endpoint)
	}
}

// Check compares what happened to a packet with what had to happen.
func (o Outcome) Check(p Packet, r Result) error {
	switch {
	case o.Action != r.Action:
		return fmt.Errorf("sending %s: got %s, want %s", p, r, o.Action)
	case o.Action != Forward:
		return nil
	case !slices.Contains(o.Endpoints, r.Endpoint):
		return fmt.Errorf("sending %s: got %s, want one of %v", p, r, o.Endpoints)
	case o.Masquerades(p, r.Endpoint) != r.SNAT:
		return fmt.Errorf("sending %s: got %s, want masquerading: %t", p, r, !r.SNAT)
	default:
		return nil
	}
}
