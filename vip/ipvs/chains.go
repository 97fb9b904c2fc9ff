package ipvs

import (
	"slices"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// This file is what the nf_tables half of ipvs mode does with a packet; doc.go
// has the drawing, compile.go what each virtual server adds to the sets.

// The packet mark's bits that are ours, on the packets that begin a connection
// only; routeBit is on all of them, and only between two hooks.
const (
	byMarkBit = 1 << 11 // the upper half names the IPVS server
	routeBit  = 1 << 12 // to be routed to this node itself
	oursBit   = 1 << 13 // goes to IPVS
	masqBit   = 1 << 14 // to be masqueraded; the same bit as kube-proxy's
	idShift   = 16
	everyBit  = 1<<32 - 1
)

const (
	tableName = "signpost-ipvs"

	preroutingChain  = "prerouting"
	outputChain      = "output"
	postroutingChain = "nat-postrouting"
	doneChain        = "done"
	captureChain     = "capture"
	capturedChain    = "captured"

	guardChain      = "unassigned"
	rejectChain     = "verdict-reject"
	dropChain       = "verdict-drop"
	serveChain      = "to-ipvs"
	masqueradeChain = "to-ipvs-masquerade"
)

// Chain types and places. Only what masquerades is of type nat: such a chain
// sees one packet of a connection, even if that was refused, and a client that
// tries again from the same port would be let through.
var (
	natPostrouting = &ruleset.Hook{Type: nft.ChainTypeNAT, At: nft.ChainHookPostrouting, Priority: nft.ChainPriorityNATSource}
	// Before IPVS, which works at the output hook just after destination NAT; and
	// before that, so that nobody else translates what goes to IPVS (B24).
	arrived = filter(nft.ChainHookPrerouting, *beforeNAT)
	sent    = filter(nft.ChainHookOutput, *beforeNAT)
	// After the dispatch, which may replace the whole mark, and before routing.
	beforeRouting = filter(nft.ChainHookPrerouting, *nft.ChainPriorityNATDest+10)
	// IPVS works at the input hook, just before source NAT.
	beforeIPVS = filter(nft.ChainHookInput, *nft.ChainPriorityMangle)
	last       = filter(nft.ChainHookPostrouting, *nft.ChainPriorityNATSource+10)
)

func filter(at *nft.ChainHook, priority nft.ChainPriority) *ruleset.Hook {
	return &ruleset.Hook{Type: nft.ChainTypeFilter, At: at, Priority: nft.ChainPriorityRef(priority)}
}

// skeleton returns all chains. They depend on the node's settings alone. Liberal
// is a connection tracking that does not look at TCP's window.
func skeleton(node *vip.Node, liberal bool) []ruleset.Chain {
	one := ruleset.One
	chains := []ruleset.Chain{
		{Name: preroutingChain, Hook: arrived, Rules: beginnings("arrived here")},
		{Name: outputChain, Hook: sent, Rules: beginnings("sent by this node")},
		{Name: postroutingChain, Hook: natPostrouting, Rules: postrouting()},
		{Name: doneChain, Hook: last, Rules: done()},
		{Name: captureChain, Hook: beforeRouting, Rules: capture()},
		{Name: capturedChain, Hook: beforeIPVS, Rules: captured()},
		{Name: rejectChain, Rules: []ruleset.Rule{
			ruleset.NewRule("refuse a TCP connection", ruleset.IfProtocol(unix.IPPROTO_TCP), one(ruleset.Reset())),
			ruleset.NewRule("refuse anything else", one(ruleset.Unreachable())),
		}},
		{Name: dropChain, Rules: []ruleset.Rule{ruleset.NewRule("no answer", one(ruleset.Drop()))}},
		{Name: guardChain, Rules: guard()},
		{Name: serveChain, Rules: []ruleset.Rule{ruleset.NewRule("IPVS takes it", ruleset.ChangeMark(masqBit, oursBit))}},
		{Name: masqueradeChain, Rules: []ruleset.Rule{ruleset.NewRule("IPVS takes it, masqueraded", ruleset.ChangeMark(0, oursBit|masqBit))}},
	}
	for _, f := range ruleset.Families {
		chains = append(chains, familyChains(f, node)...)
	}
	return append(append(chains, kept()...), strays(liberal))
}

func dispatchChain(f *ruleset.Family) string { return f.Name + "-services" }
func admitChain(f *ruleset.Family) string    { return f.Name + "-admit" }
func elseChain(f *ruleset.Family) string     { return f.Name + "-no-service" }

func sourceChain(f *ruleset.Family, s vip.Source) string { return f.Name + "-from-" + s.String() }
func markChain(f *ruleset.Family, s vip.Source) string   { return f.Name + "-by-mark-" + s.String() }

// beginnings dispatches the packets that begin a connection, once: what IPVS
// has translated comes by the output hook again.
func beginnings(comment string) []ruleset.Rule {
	rules := []ruleset.Rule{ruleset.NewRule("went to IPVS", ruleset.IfMarked(oursBit), ruleset.One(ruleset.Return()))}
	for _, f := range ruleset.Families {
		rules = append(rules, ruleset.NewRule(comment, ruleset.IfNew(), f.IfFamily(), ruleset.One(ruleset.Jump(dispatchChain(f)))))
	}
	return rules
}

// familyChains find what becomes of a packet: by where it comes from, then by
// the frontend that it goes to.
func familyChains(f *ruleset.Family, node *vip.Node) []ruleset.Chain {
	s, one := setsOf[f], ruleset.One
	chains := []ruleset.Chain{
		{Name: dispatchChain(f), Rules: dispatch(f, node.Detector)},
		{Name: admitChain(f), Rules: []ruleset.Rule{
			ruleset.NewRule("inside the source ranges", f.IfFamily(), f.LoadFrontend(ruleset.First),
				one(f.LoadSource(ruleset.First+f.FrontendWords()), ruleset.InSet(s.ranges), ruleset.Return())),
			ruleset.NewRule("outside of them", one(ruleset.Drop())),
		}},
		{Name: elseChain(f), Rules: unserved(f, node)},
	}
	for _, source := range vip.Sources {
		key := append(f.LoadFrontend(ruleset.First), ruleset.Constant(ruleset.First+f.FrontendWords(), sourceNumber(source)))
		chains = append(chains,
			ruleset.Chain{Name: sourceChain(f, source), Rules: []ruleset.Rule{
				ruleset.NewRule("frontends of services", f.IfFamily(), f.LoadFrontend(ruleset.First), one(ruleset.LookUp(s.from[source], ruleset.Verdict))),
				ruleset.NewRule("no service's", one(ruleset.GoTo(elseChain(f)))),
			}},
			ruleset.Chain{Name: markChain(f, source), Rules: []ruleset.Rule{
				ruleset.NewRule("IPVS has a server of its own for them", f.IfFamily(), key,
					one(ruleset.LookUp(s.marks, ruleset.First), &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: ruleset.First})),
			}})
	}
	return chains
}

func sourceNumber(s vip.Source) []byte { return ruleset.AppendNumber(nil, uint32(s)) }

func dispatch(f *ruleset.Family, pods vip.Detector) []ruleset.Rule {
	one := ruleset.One
	rules := []ruleset.Rule{ruleset.NewRule("source ranges", f.IfFamily(), f.LoadFrontend(ruleset.First),
		one(ruleset.InSet(setsOf[f].restricted), ruleset.Jump(admitChain(f))))}
	toPod := one(ruleset.GoTo(sourceChain(f, vip.FromPod)))
	for _, p := range pods.CIDRs {
		if ruleset.FamilyOf(p.Addr().Is6()) == f {
			rules = append(rules, ruleset.NewRule("from a pod", f.IfFamily(), f.IfSource(p), toPod))
		}
	}
	if pods.InterfacePrefix != "" {
		rules = append(rules, ruleset.NewRule("from a pod", ruleset.IfInterface(pods.InterfacePrefix), toPod))
	}
	return append(rules,
		ruleset.NewRule("from this node", ruleset.IfFromThisNode(), one(ruleset.GoTo(sourceChain(f, vip.FromNode)))),
		ruleset.NewRule("from elsewhere", one(ruleset.GoTo(sourceChain(f, vip.FromOutside)))))
}

// late reports whether a chain must not be there beside another mode at work: it
// refuses what no service has, or keeps others from translating.
func late(c ruleset.Chain) bool {
	return c.Name == keptChain || c.Name == keptSentChain || slices.ContainsFunc(ruleset.Families[:], func(f *ruleset.Family) bool { return c.Name == elseChain(f) })
}

// latest are the chains of a skeleton that are filled last.
func latest(skeleton []ruleset.Chain) []ruleset.Chain {
	return slices.DeleteFunc(slices.Clone(skeleton), func(c ruleset.Chain) bool { return !late(c) })
}

// opened is a skeleton as it is made at first, and while another mode takes
// over: the late chains are empty.
func opened(skeleton []ruleset.Chain) []ruleset.Chain {
	open := slices.Clone(skeleton)
	for i := range open {
		if late(open[i]) {
			open[i].Rules = nil
		}
	}
	return open
}

// unserved refuses what could have been meant for a service (F-16): else the
// node's own daemons would answer on the addresses that are bound here (B17).
func unserved(f *ruleset.Family, node *vip.Node) []ruleset.Rule {
	toGuard := ruleset.One(ruleset.GoTo(guardChain))
	rules := []ruleset.Rule{ruleset.NewRule("other ports of cluster addresses", f.IfFamily(),
		ruleset.One(f.LoadDestination(ruleset.First), ruleset.InSet(setsOf[f].clusterIPs)), toGuard)}
	for _, p := range node.ServiceCIDRs {
		if ruleset.FamilyOf(p.Addr().Is6()) == f {
			rules = append(rules, ruleset.NewRule("addresses that no service has", f.IfFamily(), f.IfDestination(p), toGuard))
		}
	}
	return rules
}

// guard lets ping and the like go their way.
func guard() []ruleset.Rule {
	var rules []ruleset.Rule
	for _, number := range protocolNumbers {
		rules = append(rules, ruleset.NewRule("nobody there", ruleset.IfProtocol(number), ruleset.One(ruleset.GoTo(rejectChain))))
	}
	return rules
}

// capture has packets to addresses that are not this node's routed to it all
// the same, port by port: other ports of the address go their way (F-07, B20).
func capture() []ruleset.Rule {
	var rules []ruleset.Rule
	for _, f := range ruleset.Families {
		captured := append(ruleset.One(ruleset.InSet(setsOf[f].captured)), ruleset.ChangeMark(0, routeBit)...)
		rules = append(rules,
			ruleset.NewRule("served here", f.IfFamily(), ruleset.IfToServer(), f.LoadFrontend(ruleset.First), captured),
			captureErrors(f))
	}
	return rules
}

func captureErrors(f *ruleset.Family) ruleset.Rule {
	captured := append(ruleset.One(ruleset.InSet(setsOf[f].captured)), ruleset.ChangeMark(0, routeBit)...)
	return ruleset.NewRule("an error about what is served here", f.IfFamily(), f.IfICMP(), ruleset.IfRelated(), f.LoadQuotedFrontend(ruleset.First), captured)
}

// captured takes the mark off that routing needed.
func captured() []ruleset.Rule {
	return []ruleset.Rule{ruleset.NewRule("routed; IPVS compares the whole mark", ruleset.IfMarked(routeBit), ruleset.ChangeMark(routeBit, 0))}
}

// postrouting sees the first packet of a connection after IPVS has translated it.
func postrouting() []ruleset.Rule {
	masquerade := ruleset.One(ruleset.Masquerade())
	rules := []ruleset.Rule{ruleset.NewRule("to be masqueraded", ruleset.IfMarked(oursBit|masqBit), masquerade)}
	for _, f := range ruleset.Families {
		rules = append(rules, ruleset.NewRule("an endpoint that reaches itself", f.IfFamily(), ruleset.IfMarked(oursBit),
			ruleset.One(f.LoadSource(ruleset.First), f.LoadDestination(ruleset.First+f.AddrWords), ruleset.InSet(setsOf[f].hairpin)), masquerade))
	}
	return rules
}

// done takes our bits off the mark: tunnels would copy them to their own packets.
func done() []ruleset.Rule {
	return []ruleset.Rule{
		ruleset.NewRule("went by mark", ruleset.IfMarked(oursBit|byMarkBit), ruleset.ChangeMark(everyBit, 0)),
		ruleset.NewRule("went to IPVS", ruleset.IfMarked(oursBit), ruleset.ChangeMark(oursBit|masqBit, 0)),
	}
}
