package nftables

import (
	nft "github.com/google/nftables"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// A segment of an endpoint's that connection tracking can't place is translated
// by nobody (B56). What would come of it: the client, or this node if the
// connection was masqueraded, knows no connection to the endpoint itself, and
// resets it. So such segments are dropped on their way to both, if they come
// from a port of an endpoint: a client's ports are others, so that where only
// one half of other connections comes by here, it is left alone. Where
// connection tracking does not look at the window, there is nothing to drop.

const (
	forwardChain = "strays-forward"
	inputChain   = "strays-input"
)

var (
	forward = &ruleset.Hook{Type: nft.ChainTypeFilter, At: nft.ChainHookForward, Priority: nft.ChainPriorityFilter}
	input   = &ruleset.Hook{Type: nft.ChainTypeFilter, At: nft.ChainHookInput, Priority: nft.ChainPriorityFilter}
)

// strays drops them; liberal: there are none.
func strays(liberal bool) []ruleset.Chain {
	var rules []ruleset.Rule
	for _, f := range ruleset.Families {
		if !liberal {
			rules = append(rules, ruleset.DropStrays(f, setsOf[f].ports))
		}
	}
	return []ruleset.Chain{{Name: forwardChain, Hook: forward, Rules: rules}, {Name: inputChain, Hook: input, Rules: rules}}
}

// portElements names the ports that the endpoints of a TCP server have.
func portElements(s *familySets, v *vip.VirtualServer) []ruleset.Element {
	if v.Frontend.Protocol != discovery.TCP {
		return nil
	}
	return ruleset.PortElements(s.ports, v.EndpointPorts())
}
