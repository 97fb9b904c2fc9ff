package iptables

import (
	"crypto/sha256"
	"hash"
	"maps"
	"net/netip"
	"slices"

	"signpost/vip"
)

// digest stands for a chain's text.
type digest struct {
	sum   [sha256.Size]byte
	rules int
}

func (c chain) digest() digest {
	s := newSummer()
	for _, r := range c.rules {
		s.add(r.text)
	}
	return s.digest()
}

// summer makes a digest of rules.
type summer struct {
	hash  hash.Hash
	rules int
}

func newSummer() *summer { return &summer{hash: sha256.New()} }

func (s *summer) add(rule string) {
	s.hash.Write([]byte(rule))
	s.hash.Write([]byte{'\n'})
	s.rules++
}

func (s *summer) digest() digest { return digest{[sha256.Size]byte(s.hash.Sum(nil)), s.rules} }

// ledger is what one family's tables hold: the virtual servers, and the chains
// that were written for them.
type ledger struct {
	compiler compiler
	node     *vip.Node
	settings settings
	health   []uint16 // health-check node ports

	members  map[group]map[vip.Frontend]*vip.VirtualServer
	hairpins map[group]map[netip.Addr]int // endpoints, with the number of servers that have them
	chains   [len(tables)]map[string]digest
	made     [len(tables)]map[group][]string // the chains of each group
}

func newLedger(f *family, node *vip.Node, s settings) *ledger {
	l := &ledger{
		compiler: compiler{family: f, pods: node.Detector}, node: node, settings: s,
		members: map[group]map[vip.Frontend]*vip.VirtualServer{}, hairpins: map[group]map[netip.Addr]int{},
	}
	for t := range tables {
		l.chains[t], l.made[t] = map[string]digest{}, map[group][]string{}
	}
	return l
}

// get returns the virtual server that a frontend has, or nil.
func (l *ledger) get(f vip.Frontend) *vip.VirtualServer { return l.members[groupOf(f)][f] }

// move gives a frontend another virtual server, or none, and adds to touched
// the groups that have to be compiled again.
func (l *ledger) move(f vip.Frontend, to *vip.VirtualServer, touched map[group]bool) {
	g := groupOf(f)
	touched[g] = true
	l.count(l.members[g][f], -1, touched)
	l.count(to, 1, touched)
	if to == nil {
		delete(l.members[g], f)
		return
	}
	if l.members[g] == nil {
		l.members[g] = map[vip.Frontend]*vip.VirtualServer{}
	}
	l.members[g][f] = to
}

// count enters or takes out the endpoints that may run on this node (P-15).
func (l *ledger) count(v *vip.VirtualServer, by int, touched map[group]bool) {
	if v == nil {
		return
	}
	for _, endpoints := range [][]vip.Endpoint{v.Cluster, v.Local} {
		for _, e := range endpoints {
			if e.Local || e.Unplaced {
				l.countEndpoint(e.AddrPort.Addr(), by, touched)
			}
		}
	}
}

func (l *ledger) countEndpoint(a netip.Addr, by int, touched map[group]bool) {
	g := hairpinGroup(a)
	users := l.hairpins[g]
	if users == nil {
		users = map[netip.Addr]int{}
		l.hairpins[g] = users
	}
	was := users[a]
	users[a] += by
	if users[a] == 0 {
		delete(users, a)
	}
	if (was == 0) != (users[a] == 0) {
		touched[g] = true
	}
}

// groups lists all groups that hold something, in order.
func (l *ledger) groups() []group {
	all := map[group]bool{}
	for g := range l.members {
		all[g] = true
	}
	for g := range l.hairpins {
		all[g] = true
	}
	return sorted(all)
}

func sorted(groups map[group]bool) []group {
	return slices.SortedFunc(maps.Keys(groups), group.compare)
}

// servers returns a group's virtual servers in order.
func (l *ledger) servers(g group) []*vip.VirtualServer {
	return slices.SortedFunc(maps.Values(l.members[g]), func(a, b *vip.VirtualServer) int {
		return a.Frontend.Compare(b.Frontend)
	})
}

// compile returns a group's chains in one table, its leaf first; a leaf without
// rules is left out.
func (l *ledger) compile(t table, g group) []chain {
	leaf, own := chain{name: g.chain()}, []chain(nil)
	part := l.compiler.translate
	switch {
	case g.kind == hairpins && t == natTable:
		leaf.rules = l.hairpinRules(g)
	case g.kind == hairpins:
		return nil
	case t == filterTable:
		part = l.compiler.reject
	}
	list := l.servers(g)
	for i, v := range list {
		rules, chains := part(v)
		leaf.rules, own = append(leaf.rules, rules...), append(own, chains...)
		last := i == len(list)-1 || list[i+1].Frontend.Addr != v.Frontend.Addr
		if t == filterTable && last && l.guards(v.Frontend.Addr) {
			leaf.rules = append(leaf.rules, rule{text: "-d " + host(v.Frontend.Addr) + " -j " + unassignedChain})
		}
	}
	if len(leaf.rules) == 0 {
		return own
	}
	return append([]chain{leaf}, own...)
}

// alone returns the rules of a virtual server in a table that lead to no chain
// of ours: what the kernel may refuse is in them.
func (l *ledger) alone(t table, v *vip.VirtualServer) []rule {
	part := l.compiler.translate
	if t == filterTable {
		part = l.compiler.reject
	}
	rules, chains := part(v)
	for _, c := range chains {
		rules = append(rules, c.rules...)
	}
	return slices.DeleteFunc(rules, func(r rule) bool { return leadsToUs(r.text) })
}

// guards reports whether an address needs a rule that refuses its other ports:
// it is a cluster address, and outside of the ranges that are refused as a whole.
func (l *ledger) guards(a netip.Addr) bool {
	return l.captured(a) && !slices.ContainsFunc(l.node.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
}

// captured reports whether an address is the dataplane's as a whole.
func (l *ledger) captured(a netip.Addr) bool {
	for f, v := range l.members[groupOf(vip.Frontend{Addr: a})] {
		if f.Addr == a && v.Kind == vip.KindClusterIP {
			return true
		}
	}
	return false
}

func (l *ledger) hairpinRules(g group) []rule {
	var rules []rule
	for _, a := range slices.SortedFunc(maps.Keys(l.hairpins[g]), netip.Addr.Compare) {
		rules = append(rules, rule{text: "-s " + host(a) + " -d " + host(a) + " " + l.settings.masquerade()})
	}
	return rules
}

// nodePortAddrs are the addresses whose ports are node ports: a cluster address
// never is one, whoever has it.
func (l *ledger) nodePortAddrs() []netip.Addr {
	return slices.DeleteFunc(l.compiler.family.own(l.node.NodePortAddrs), l.captured)
}
