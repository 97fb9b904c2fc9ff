package nftables

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"signpost/vip"
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

// chain is a chain and its rules, in order.
type chain struct {
	name  string
	rules []rule
}

// comments lists what the rules say of themselves, fingerprints included.
func (c chain) comments() []string {
	comments := make([]string, len(c.rules))
	for i, r := range c.rules {
		comments[i] = r.label()
	}
	return comments
}

// rule is one rule with the words that `nft list` shows beside it.
type rule struct {
	comment string
	exprs   []expr.Any
}

func newRule(comment string, parts ...[]expr.Any) rule {
	return rule{comment: comment, exprs: slices.Concat(parts...)}
}

func one(e ...expr.Any) []expr.Any { return e }

// skeleton returns the chains that do not depend on any Service.
func skeleton(node *vip.Node) []chain {
	chains := []chain{
		{preroutingChain, perFamily("arrived here", func(f *family) expr.Any { return jumpTo(servicesChain(f)) })},
		{outputChain, perFamily("sent by this node", func(f *family) expr.Any { return jumpTo(servicesChain(f)) })},
		{postroutingChain, postrouting()},
		{rejectChain, []rule{
			newRule("refuse a TCP connection", ifProtocol(unix.IPPROTO_TCP), one(resetTCP())),
			newRule("refuse anything else", one(unreachable())),
		}},
		{dropChain, []rule{newRule("no answer", one(drop()))}},
		{guardChain, guard()},
	}
	for _, f := range families {
		chains = append(chains, chain{servicesChain(f), dispatch(f, node)})
	}
	return chains
}

func servicesChain(f *family) string { return f.name + "-services" }

func perFamily(comment string, verdict func(*family) expr.Any) []rule {
	var rules []rule
	for _, f := range families {
		rules = append(rules, newRule(comment, ifFamily(f), one(verdict(f))))
	}
	return rules
}

// dispatch finds the packet's virtual server: the first packet of each
// connection comes by here, later ones follow conntrack.
func dispatch(f *family, node *vip.Node) []rule {
	s := setsOf[f]
	proto := firstRegister + f.addrWords
	loadFrontend := one(f.loadDestination(firstRegister), loadProtocol(proto), loadPort(proto+1))
	rules := []rule{newRule("addresses of services", ifFamily(f), loadFrontend, one(lookUp(s.services, firstRegister, verdictRegister)))}
	rules = append(rules, newRule("other ports of cluster addresses", ifFamily(f),
		one(f.loadDestination(firstRegister), inSet(s.clusterIPs), goTo(guardChain))))
	for _, p := range node.ServiceCIDRs {
		if familyOf(p.Addr().Is6()) == f {
			rules = append(rules, newRule("addresses that no service has", ifFamily(f), f.ifDestination(p), one(goTo(guardChain))))
		}
	}
	return append(rules, newRule("node ports", ifFamily(f),
		one(f.loadDestination(firstRegister), inSet(s.nodePortAddrs)),
		one(loadProtocol(firstRegister), loadPort(firstRegister+1), lookUp(s.nodePorts, firstRegister, verdictRegister))))
}

// guard refuses what could have been meant for a service (F-16); ping and the
// like go their way.
func guard() []rule {
	var rules []rule
	for _, p := range protocolNumbers {
		rules = append(rules, newRule("nobody there", ifProtocol(p), one(goTo(rejectChain))))
	}
	return rules
}

// postrouting masquerades what was marked, and endpoints that reach themselves.
func postrouting() []rule {
	rules := []rule{newRule("marked connections", ifMarked(), clearMark(), one(masquerade()))}
	translated := one(
		&expr.Ct{Key: expr.CtKeySTATUS, Register: firstRegister},
		&expr.Bitwise{
			SourceRegister: firstRegister, DestRegister: firstRegister, Len: 4,
			Mask: markBytes(statusDNAT), Xor: markBytes(0),
		},
		equals(markBytes(statusDNAT)),
	)
	for _, f := range families {
		rules = append(rules, newRule("an endpoint that reaches itself", ifFamily(f), translated,
			one(f.loadSource(firstRegister), f.loadDestination(firstRegister+f.addrWords), inSet(setsOf[f].hairpin), masquerade())))
	}
	return rules
}

// statusDNAT is the conntrack status bit IPS_DST_NAT.
const statusDNAT = 1 << 5

// class is what a family of virtual servers has in common: everything that
// decides about a packet but the addresses. Virtual servers of one class share
// their chains, so the number of chains follows the number of different
// endpoint counts, not the number of Services.
type class struct {
	family     *family
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
	c := class{family: familyOf(v.Frontend.Is6()), nodePort: v.Frontend.IsNodePort(), restricted: v.Restricted}
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
func (c class) chain(name string, pods vip.Detector) chain {
	switch {
	case c.restricted && name == c.entry():
		return chain{name, c.admit()}
	case !c.uniform() && name == c.bySource():
		return chain{name, c.split(pods)}
	}
	for _, a := range c.routes {
		if c.target(a) == name {
			return chain{name, c.deliver(a)}
		}
	}
	return chain{name: name}
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
	name := c.family.name
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
func (c class) admit() []rule {
	source := firstRegister + c.frontendLen()
	return []rule{
		newRule("inside the source ranges", c.only(), c.loadFrontend(firstRegister),
			one(c.family.loadSource(source), inSet(setsOf[c.family].ranges), goTo(c.inner()))),
		newRule("outside of them", one(goTo(dropChain))),
	}
}

// split sends pods, this node and others their ways. A test whose way is that
// of all who are left is left out.
func (c class) split(pods vip.Detector) []rule {
	pod, node, outside := c.routes[vip.FromPod], c.routes[vip.FromNode], c.routes[vip.FromOutside]
	rules := c.fromPod(pods, pod)
	if node != outside {
		rules = append(rules, newRule("from this node", ifFromThisNode(), one(goTo(c.target(node)))))
	}
	return append(rules, newRule("from elsewhere", one(goTo(c.target(outside)))))
}

func (c class) fromPod(pods vip.Detector, a action) []rule {
	var rules []rule
	for _, p := range pods.CIDRs {
		if familyOf(p.Addr().Is6()) == c.family {
			rules = append(rules, newRule("from a pod", c.only(), c.family.ifSource(p), one(goTo(c.target(a)))))
		}
	}
	if pods.InterfacePrefix != "" {
		rules = append(rules, newRule("from a pod", ifInterface(pods.InterfacePrefix), one(goTo(c.target(a)))))
	}
	return rules
}

// deliver translates the connection to an endpoint.
func (c class) deliver(a action) []rule {
	var rules []rule
	if a.snat {
		rules = append(rules, newRule("to be masqueraded", setMark()))
	}
	if a.affinity > 0 {
		rules = append(rules, c.stick(a)...)
	}
	return append(rules, c.pick(a))
}

// pick chooses an endpoint at random.
func (c class) pick(a action) rule {
	f := c.family
	index := firstRegister + c.frontendLen()
	return newRule("any endpoint", c.only(), c.loadFrontend(firstRegister), one(
		randomIndex(index, a.count),
		lookUp(setsOf[f].endpointsOf(a.set), firstRegister, firstRegister),
		f.translate(firstRegister)))
}

// only lets packets of the class's family through: none other come here, but
// it tells `nft list` how to show the rest of the rule.
func (c class) only() []expr.Any { return ifFamily(c.family) }

// frontendLen is the number of registers that a frontend takes.
func (c class) frontendLen() uint32 { return c.family.addrWords + 2 }

// loadFrontend loads address . protocol . port, as the sets have them, from
// the given register on.
func (c class) loadFrontend(at uint32) []expr.Any {
	address := c.family.loadDestination(at)
	if c.nodePort {
		address = loadConstant(at, make([]byte, c.family.addrLen))
	}
	proto := at + c.family.addrWords
	return []expr.Any{address, loadProtocol(proto), loadPort(proto + 1)}
}
