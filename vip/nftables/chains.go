package nftables

import (
	"fmt"
	"slices"
	"strings"
	"time"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// This file is what nftables mode does with a packet; doc.go has the drawing.

const (
	tableName = "signpost"

	preroutingChain  = "nat-prerouting"
	outputChain      = "nat-output"
	postroutingChain = "nat-postrouting"
	guardChain       = "unassigned"
	rejectChain      = "verdict-reject"
	dropChain        = "verdict-drop"

	// masqueradeMark is the bit of the packet mark that asks for masquerading
	// in postrouting; the same bit as kube-proxy's, which means the same by it.
	masqueradeMark = 1 << 14
)

var (
	prerouting  = &ruleset.Hook{Type: nft.ChainTypeNAT, At: nft.ChainHookPrerouting, Priority: nft.ChainPriorityNATDest}
	output      = &ruleset.Hook{Type: nft.ChainTypeNAT, At: nft.ChainHookOutput, Priority: nft.ChainPriorityNATDest}
	postrouting = &ruleset.Hook{Type: nft.ChainTypeNAT, At: nft.ChainHookPostrouting, Priority: nft.ChainPriorityNATSource}
)

// skeleton returns the chains that do not depend on any Service. Liberal is a
// connection tracking that does not look at TCP's window.
func skeleton(node *vip.Node, liberal bool) []ruleset.Chain {
	chains := []ruleset.Chain{
		{Name: preroutingChain, Hook: prerouting, Rules: perFamily("arrived here", func(f *ruleset.Family) expr.Any { return ruleset.Jump(servicesChain(f)) })},
		{Name: outputChain, Hook: output, Rules: perFamily("sent by this node", func(f *ruleset.Family) expr.Any { return ruleset.Jump(servicesChain(f)) })},
		{Name: postroutingChain, Hook: postrouting, Rules: masquerade()},
		{Name: rejectChain, Rules: []ruleset.Rule{
			ruleset.NewRule("refuse a TCP connection", ruleset.IfProtocol(unix.IPPROTO_TCP), one(ruleset.Reset())),
			ruleset.NewRule("refuse anything else", one(ruleset.Unreachable())),
		}},
		{Name: dropChain, Rules: []ruleset.Rule{ruleset.NewRule("no answer", one(ruleset.Drop()))}},
		{Name: guardChain, Rules: guard()},
	}
	for _, f := range ruleset.Families {
		chains = append(chains, ruleset.Chain{Name: servicesChain(f), Rules: dispatch(f, node)})
	}
	return append(chains, strays(liberal)...)
}

func servicesChain(f *ruleset.Family) string { return f.Name + "-services" }

func perFamily(comment string, verdict func(*ruleset.Family) expr.Any) []ruleset.Rule {
	var rules []ruleset.Rule
	for _, f := range ruleset.Families {
		rules = append(rules, ruleset.NewRule(comment, f.IfFamily(), one(verdict(f))))
	}
	return rules
}

// dispatch finds the packet's virtual server: the first packet of each
// connection comes by here, later ones follow conntrack.
func dispatch(f *ruleset.Family, node *vip.Node) []ruleset.Rule {
	s := setsOf[f]
	rules := []ruleset.Rule{ruleset.NewRule("addresses of services", f.IfFamily(), f.LoadFrontend(ruleset.First), one(ruleset.LookUp(s.services, ruleset.Verdict)))}
	rules = append(rules, ruleset.NewRule("other ports of cluster addresses", f.IfFamily(),
		one(f.LoadDestination(ruleset.First), ruleset.InSet(s.clusterIPs), ruleset.GoTo(guardChain))))
	for _, p := range node.ServiceCIDRs {
		if ruleset.FamilyOf(p.Addr().Is6()) == f {
			rules = append(rules, ruleset.NewRule("addresses that no service has", f.IfFamily(), f.IfDestination(p), one(ruleset.GoTo(guardChain))))
		}
	}
	return append(rules, ruleset.NewRule("node ports", f.IfFamily(),
		one(f.LoadDestination(ruleset.First), ruleset.InSet(s.nodePortAddrs)),
		one(ruleset.LoadProtocol(ruleset.First), ruleset.LoadPort(ruleset.First+1), ruleset.LookUp(s.nodePorts, ruleset.Verdict))))
}

// guard refuses what could have been meant for a service (F-16); ping and the
// like go their way.
func guard() []ruleset.Rule {
	var rules []ruleset.Rule
	for _, p := range protocolNumbers {
		rules = append(rules, ruleset.NewRule("nobody there", ruleset.IfProtocol(p), one(ruleset.GoTo(rejectChain))))
	}
	return rules
}

// masquerade masquerades what was marked, and endpoints that reach themselves.
func masquerade() []ruleset.Rule {
	rules := []ruleset.Rule{ruleset.NewRule("marked connections", ruleset.IfMarked(masqueradeMark), ruleset.ChangeMark(masqueradeMark, 0), one(ruleset.Masquerade()))}
	for _, f := range ruleset.Families {
		rules = append(rules, ruleset.NewRule("an endpoint that reaches itself", f.IfFamily(), ruleset.IfTranslated(),
			one(f.LoadSource(ruleset.First), f.LoadDestination(ruleset.First+f.AddrWords), ruleset.InSet(setsOf[f].hairpin), ruleset.Masquerade())))
	}
	return rules
}

// class is what a family of virtual servers has in common: everything that
// decides about a packet but the addresses. Virtual servers of one class share
// their chains, so the number of chains follows the number of different
// endpoint counts, not the number of Services.
type class struct {
	family     *ruleset.Family
	nodePort   bool
	restricted bool
	routes     [len(vip.Sources)]action
	// server is set where there is affinity: such a class is one server's own.
	server *vip.VirtualServer
}

// action is what one route comes to.
type action struct {
	verdict  string // rejectChain, dropChain, or empty: go to an endpoint
	set      vip.Set
	count    int // endpoints in the set
	snat     bool
	affinity time.Duration
}

func classOf(v *vip.VirtualServer) class {
	c := class{family: ruleset.FamilyOf(v.Frontend.Is6()), nodePort: v.Frontend.IsNodePort(), restricted: v.Restricted}
	if v.Affinity > 0 {
		c.server = v
	}
	for source, route := range v.Routes {
		c.routes[source] = actionOf(v, route)
	}
	return c
}

func actionOf(v *vip.VirtualServer, r vip.Route) action {
	endpoints := v.Endpoints(r.Set)
	switch {
	case len(endpoints) > 0:
		return action{set: r.Set, count: len(endpoints), snat: r.SNAT, affinity: v.Affinity}
	case r.Empty == vip.Drop:
		return action{verdict: dropChain}
	default:
		return action{verdict: rejectChain}
	}
}

// names lists the names of the class's chains.
func (c class) names() []string {
	var names []string
	if c.restricted {
		names = append(names, c.entry())
	}
	if !c.uniform() {
		names = append(names, c.bySource())
	}
	for i, a := range c.routes {
		if a.verdict == "" && !slices.Contains(c.routes[:i], a) {
			names = append(names, c.target(a))
		}
	}
	return names
}

// chain makes one of the class's chains. Its rules depend on how this node
// tells pods from others.
func (c class) chain(name string, pods vip.Detector) ruleset.Chain {
	switch {
	case c.restricted && name == c.entry():
		return ruleset.Chain{Name: name, Rules: c.admit()}
	case !c.uniform() && name == c.bySource():
		return ruleset.Chain{Name: name, Rules: c.split(pods)}
	}
	for _, a := range c.routes {
		if c.target(a) == name {
			return ruleset.Chain{Name: name, Rules: c.deliver(a)}
		}
	}
	return ruleset.Chain{Name: name}
}

// entry is the name of the chain to which the class's frontends lead.
func (c class) entry() string {
	if c.restricted {
		return c.prefix() + "admit-" + strings.TrimPrefix(c.inner(), c.prefix())
	}
	return c.inner()
}

func (c class) inner() string {
	if c.uniform() {
		return c.target(c.routes[0])
	}
	return c.bySource()
}

func (c class) uniform() bool { return c.routes[0] == c.routes[1] && c.routes[1] == c.routes[2] }

// prefix begins the names of all chains of the class. Those of a server with
// affinity are its own: they name it and a digest of its endpoints, since a
// chain never changes; another list of endpoints has other chains.
func (c class) prefix() string {
	name := c.family.Name
	if c.nodePort {
		name += "-node-port"
	}
	if c.server != nil {
		return name + "-sticky/" + stickyName(c.server) + "/"
	}
	return name + "-"
}

// bySource is "ip4-pod.cluster-10-node.cluster-10-snat-outside.local-3".
func (c class) bySource() string {
	var b strings.Builder
	b.WriteString(c.prefix() + "by-source")
	for source, a := range c.routes {
		fmt.Fprintf(&b, "/%s.%s", vip.Source(source), a)
	}
	return b.String()
}

// target is the name of the chain that carries out an action.
func (c class) target(a action) string {
	if a.verdict != "" {
		return a.verdict
	}
	return c.prefix() + a.String()
}

// String returns the action as it stands in a chain's name: "local-3-snat".
func (a action) String() string {
	if a.verdict != "" {
		return a.verdict
	}
	name := fmt.Sprintf("%s-%d", a.set, a.count)
	if a.snat {
		name += "-snat"
	}
	if a.affinity > 0 {
		name += fmt.Sprintf("-for-%s", a.affinity)
	}
	return name
}

// admit lets through who is in the source ranges, and drops all others.
func (c class) admit() []ruleset.Rule {
	source := ruleset.First + c.frontendLen()
	return []ruleset.Rule{
		ruleset.NewRule("inside the source ranges", c.only(), c.loadFrontend(ruleset.First),
			one(c.family.LoadSource(source), ruleset.InSet(setsOf[c.family].ranges), ruleset.GoTo(c.inner()))),
		ruleset.NewRule("outside of them", one(ruleset.GoTo(dropChain))),
	}
}

// split sends pods, this node and others their ways. A test whose way is that
// of all who are left is left out.
func (c class) split(pods vip.Detector) []ruleset.Rule {
	pod, node, outside := c.routes[vip.FromPod], c.routes[vip.FromNode], c.routes[vip.FromOutside]
	rules := c.fromPod(pods, pod)
	if node != outside {
		rules = append(rules, ruleset.NewRule("from this node", ruleset.IfFromThisNode(), one(ruleset.GoTo(c.target(node)))))
	}
	return append(rules, ruleset.NewRule("from elsewhere", one(ruleset.GoTo(c.target(outside)))))
}

func (c class) fromPod(pods vip.Detector, a action) []ruleset.Rule {
	var rules []ruleset.Rule
	for _, p := range pods.CIDRs {
		if ruleset.FamilyOf(p.Addr().Is6()) == c.family {
			rules = append(rules, ruleset.NewRule("from a pod", c.only(), c.family.IfSource(p), one(ruleset.GoTo(c.target(a)))))
		}
	}
	if pods.InterfacePrefix != "" {
		rules = append(rules, ruleset.NewRule("from a pod", ruleset.IfInterface(pods.InterfacePrefix), one(ruleset.GoTo(c.target(a)))))
	}
	return rules
}

// deliver translates the connection to an endpoint.
func (c class) deliver(a action) []ruleset.Rule {
	var rules []ruleset.Rule
	if a.snat {
		rules = append(rules, ruleset.NewRule("to be masqueraded", ruleset.ChangeMark(0, masqueradeMark)))
	}
	if a.affinity > 0 {
		rules = append(rules, c.stick(a)...)
	}
	return append(rules, c.pick(a))
}

// pick chooses an endpoint at random.
func (c class) pick(a action) ruleset.Rule {
	f := c.family
	index := ruleset.First + c.frontendLen()
	return ruleset.NewRule("any endpoint", c.only(), c.loadFrontend(ruleset.First), one(
		randomIndex(index, a.count),
		ruleset.LookUp(setsOf[f].endpointsOf(a.set), ruleset.First),
		f.Translate(ruleset.First)))
}

// only lets packets of the class's family through: none other come here, but
// it tells `nft list` how to show the rest of the rule.
func (c class) only() []expr.Any { return c.family.IfFamily() }

// frontendLen is the number of registers that a frontend takes.
func (c class) frontendLen() uint32 { return c.family.FrontendWords() }

// loadFrontend loads address . protocol . port, as the sets have them, from
// the given register on.
func (c class) loadFrontend(at uint32) []expr.Any {
	load := c.family.LoadFrontend(at)
	if c.nodePort {
		load[0] = ruleset.Constant(at, make([]byte, c.family.AddrLen()))
	}
	return load
}
