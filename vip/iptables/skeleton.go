package iptables

import (
	"fmt"
	"net/netip"

	"signpost/vip"
)

// prefix begins the names of all our chains, and of no others.
const prefix = "SIGNPOST-"

// Chains that are always there.
const (
	servicesChain    = prefix + "SERVICES"
	nodePortsChain   = prefix + "NODE-PORTS"
	postroutingChain = prefix + "POSTROUTING"
	hairpinChain     = prefix + "HAIRPIN"
	markChain        = prefix + "MARK"
	forwardChain     = prefix + "FORWARD"
	straysChain      = prefix + "STRAYS"
	localhostChain   = prefix + "LOCALHOST"
	healthChain      = prefix + "HEALTH-CHECKS"
	refuseChain      = prefix + "REFUSE"
	unassignedChain  = prefix + "UNASSIGNED"
)

// table is one of the two tables that we write, in the order in which we do.
type table uint8

const (
	filterTable table = iota
	natTable
)

var tables = [...]table{filterTable, natTable}

// String returns the table's name.
func (t table) String() string { return [...]string{"filter", "nat"}[t] }

// jump is a rule in a chain of the kernel's that leads to one of ours.
type jump struct{ chain, text string }

// jumpsOf lists the jumps of a table (T-01). Ours are the first rules of their
// chains, in this order: an ACCEPT of somebody else before them would open what
// is to be refused (F-15).
func jumpsOf(t table) []jump {
	if t == natTable {
		return []jump{
			{"POSTROUTING", "-j " + postroutingChain},
			{"PREROUTING", "-j " + servicesChain},
			{"OUTPUT", "-j " + servicesChain},
		}
	}
	const first = "-m conntrack --ctstate NEW -j " + servicesChain
	return []jump{
		{"INPUT", first},
		{"INPUT", "-j " + straysChain},
		{"INPUT", "-j " + localhostChain},
		{"INPUT", "-j " + healthChain},
		{"FORWARD", first},
		{"FORWARD", "-j " + straysChain},
		{"FORWARD", "-j " + forwardChain},
		{"OUTPUT", first},
	}
}

// sourceSet is a set of places that packets come from.
type sourceSet uint8

const everySource sourceSet = 1<<len(vip.Sources) - 1

// markChain is the name of the chain that marks packets of these sources.
func (s sourceSet) markChain() string {
	name := markChain + "-"
	for _, source := range vip.Sources {
		if s&(1<<source) != 0 {
			name += [...]string{"P", "N", "O"}[source]
		}
	}
	return name
}

// settings are what the rules depend on beside the state.
type settings struct {
	randomFully bool // MASQUERADE --random-fully (iptables 1.6.2)
	liberal     bool // conntrack lets segments out of the window pass (B56)
}

func (s settings) masquerade() string {
	if s.randomFully {
		return "-j MASQUERADE --random-fully"
	}
	return "-j MASQUERADE"
}

// skeleton returns the chains of a table that depend on the node alone.
func (c compiler) skeleton(t table, node *vip.Node, s settings) []chain {
	if t == natTable {
		return c.natSkeleton(s)
	}
	refusals := []string{"-p tcp -j REJECT --reject-with tcp-reset", "-j REJECT --reject-with " + c.family.refusal}
	var unassigned []string
	for _, protocol := range []string{"tcp", "udp", "sctp"} { // ping and the like go their way
		unassigned = append(unassigned, "-p "+protocol+" "+refuse)
	}
	return []chain{
		static(refuseChain, refusals),
		static(unassignedChain, unassigned),
		static(straysChain, c.strays(s)),
		static(forwardChain, c.forwarding()),
		static(localhostChain, c.localhost(node)),
	}
}

func (c compiler) natSkeleton(s settings) []chain {
	chains := []chain{
		static(markChain, []string{mark}),
		static(postroutingChain, []string{
			"-m conntrack --ctstate DNAT -j " + hairpinChain,
			"-m mark ! --mark 0x4000/0x4000 " + back,
			"-j MARK --set-xmark 0x4000/0x0", // so that it isn't masqueraded again, in a tunnel say
			s.masquerade(),
		}),
	}
	for sources := sourceSet(1); sources < everySource; sources++ {
		chains = append(chains, static(sources.markChain(), c.bySource(func(s vip.Source) string {
			if sources&(1<<s) != 0 {
				return "-g " + markChain
			}
			return back
		})))
	}
	return chains
}

// strays drops the segments of pods that conntrack can't place: they would get
// to the client untranslated, or to this node if the connection is masqueraded,
// and whoever gets one resets the connection (B56). Others' go their way, and so
// do segments that begin or refuse a connection: the rest of it may have gone by
// another.
func (c compiler) strays(s settings) []string {
	var texts []string
	if !s.liberal {
		for _, test := range c.fromPod() {
			texts = append(texts, test+"-p tcp -m tcp --tcp-flags SYN,RST NONE -m conntrack --ctstate INVALID "+drop)
		}
	}
	return texts
}

// forwarding lets translated connections through where the host forwards
// nothing by default (B22).
func (c compiler) forwarding() []string {
	return []string{
		"-m mark --mark 0x4000/0x4000 " + accept,
		"-m conntrack --ctstate RELATED,ESTABLISHED -m conntrack --ctstate DNAT " + accept,
	}
}

// localhost keeps others out of 127/8 where node ports answer there: the kernel
// then routes packets to it from everywhere (CVE-2020-8558, O-05).
func (c compiler) localhost(node *vip.Node) []string {
	if !answersOnLocalhost(node) || c.family.v6 {
		return nil
	}
	return []string{"! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT " + drop}
}

func answersOnLocalhost(node *vip.Node) bool {
	for _, a := range node.NodePortAddrs {
		if a.Is4() && a.IsLoopback() {
			return true
		}
	}
	return false
}

// healthChecks lets load balancers ask at health-check node ports where the
// host lets nobody in by default (F-09).
func healthChecks(ports []uint16) chain {
	texts := make([]string, len(ports))
	for i, port := range ports {
		texts[i] = fmt.Sprintf("-p tcp -m tcp --dport %d %s", port, accept)
	}
	return static(healthChain, texts)
}

// entrance is where a table's walk through the tree begins: branches lists the
// tree's that exist, addrs the addresses on which node ports answer.
func (c compiler) entrance(t table, branches []uint16, addrs []netip.Addr, node *vip.Node) chain {
	var texts []string
	if t == filterTable {
		texts = append(texts, "-m conntrack --ctstate DNAT "+back)
	}
	for _, b := range branches {
		texts = append(texts, "-d "+c.family.lowest(b, 0)+" -j "+group{branch: b}.branchChain())
	}
	for _, a := range addrs {
		texts = append(texts, "-d "+host(a)+" -j "+nodePortsChain)
	}
	if t == filterTable {
		for _, p := range c.family.ownPrefixes(node.ServiceCIDRs) {
			texts = append(texts, toNetwork(p)+"-j "+unassignedChain)
		}
	}
	return static(servicesChain, texts)
}

func toNetwork(p netip.Prefix) string {
	if p.Bits() == 0 {
		return ""
	}
	return "-d " + p.String() + " "
}

func static(name string, texts []string) chain {
	rules := make([]rule, len(texts))
	for i, text := range texts {
		rules[i].text = text
	}
	return chain{name, rules}
}
