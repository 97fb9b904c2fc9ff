package ipvs

import (
	nft "github.com/google/nftables"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// This file is what the rules do about others that touch our packets.

const (
	keptChain     = "kept"
	keptSentChain = "kept-sent"
	straysChain   = "strays"
)

// Cluster addresses are this node's, so whoever translates what goes to a port
// of "any local address", as the host ports of pods and of containers are done,
// would translate what goes to that port of a service (B24). The first of all
// NAT rules decides. So ours is before theirs, and leaves what goes to IPVS as
// it is: it translates it to where it goes.
var (
	keep     = &ruleset.Hook{Type: nft.ChainTypeNAT, At: nft.ChainHookPrerouting, Priority: beforeNAT}
	keepSent = &ruleset.Hook{Type: nft.ChainTypeNAT, At: nft.ChainHookOutput, Priority: beforeNAT}
	// Before anybody's destination NAT.
	beforeNAT = nft.ChainPriorityRef(*nft.ChainPriorityNATDest - 1)
)

func kept() []ruleset.Chain {
	var rules []ruleset.Rule
	for _, f := range ruleset.Families {
		rules = append(rules, ruleset.NewRule("IPVS's: nobody else is to translate it", f.IfFamily(), ruleset.IfMarked(oursBit),
			ruleset.One(f.LoadDestination(ruleset.First), ruleset.LoadPort(ruleset.First+f.AddrWords), f.Translate(ruleset.First))))
	}
	return []ruleset.Chain{{Name: keptChain, Hook: keep, Rules: rules}, {Name: keptSentChain, Hook: keepSent, Rules: rules}}
}

// A segment of an endpoint's that connection tracking can't place is for IPVS to
// translate, which has a table of its own and does; but where the connection was
// masqueraded the segment is for this node, and nobody's. This node would reset
// the connection (B56). So it is dropped if it comes from a port of an endpoint,
// after IPVS has had it; unless connection tracking does not look at the window.
var afterIPVS = filter(nft.ChainHookInput, *nft.ChainPriorityNATSource+10)

func strays(liberal bool) ruleset.Chain {
	c := ruleset.Chain{Name: straysChain, Hook: afterIPVS}
	for _, f := range ruleset.Families {
		if !liberal {
			c.Rules = append(c.Rules, ruleset.DropStrays(f, setsOf[f].ports))
		}
	}
	return c
}

// ports names the ports that the endpoints of a TCP server have.
func ports(s *familySets, v *vip.VirtualServer) []ruleset.Element {
	if v.Frontend.Protocol != discovery.TCP {
		return nil
	}
	return ruleset.PortElements(s.ports, v.EndpointPorts())
}
