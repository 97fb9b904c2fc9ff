package iptables

import (
	"fmt"
	"maps"
	"slices"
)

// change is what has to be written so that the tables hold what the ledger says.
type change struct {
	ledger *ledger
	groups []group
	all    bool // the groups are all that there are
	writes [len(tables)][]chain
	jumps  [len(tables)][]string // lines that delete or insert jumps
	stale  [len(tables)][]string // chains that nothing leads to any more

	digests [len(tables)]map[string]digest
	keep    [len(tables)]map[string]bool // chains that are wanted, of those looked at
	drop    [len(tables)]map[string]bool
	made    [len(tables)]map[group][]string
}

// plan compiles groups and compares them with what was written. With all set,
// the groups are all there are: everything else is compared too, and a chain of
// ours that nobody wants is stale.
func (l *ledger) plan(groups []group, all bool) *change {
	c := &change{ledger: l, groups: groups, all: all}
	for _, t := range tables {
		c.digests[t], c.keep[t], c.drop[t] = map[string]digest{}, map[string]bool{}, map[string]bool{}
		c.made[t] = map[group][]string{}
		for _, g := range groups {
			c.compile(t, g)
		}
		c.trunk(t)
		if all {
			c.everythingElse(t)
		}
		c.stale[t] = slices.Sorted(maps.Keys(c.drop[t]))
	}
	return c
}

// everythingElse compares what depends on no Service, and drops what nobody wants.
func (c *change) everythingElse(t table) {
	l := c.ledger
	for _, skeleton := range l.compiler.skeleton(t, l.node, l.settings) {
		c.want(t, skeleton)
	}
	for name := range l.chains[t] {
		if !c.keep[t][name] {
			c.drop[t][name] = true
		}
	}
}

func (c *change) compile(t table, g group) {
	var names []string
	for _, ch := range c.ledger.compile(t, g) {
		names = append(names, ch.name)
		c.want(t, ch)
	}
	for _, old := range c.ledger.made[t][g] {
		if !slices.Contains(names, old) {
			c.drop[t][old] = true
		}
	}
	c.made[t][g] = names
}

// want notes a chain that has to be there.
func (c *change) want(t table, ch chain) {
	c.keep[t][ch.name] = true
	now := ch.digest()
	if was, exists := c.ledger.chains[t][ch.name]; !exists || was != now {
		c.writes[t] = append(c.writes[t], ch)
		c.digests[t][ch.name] = now
	}
}

// exists reports whether a chain is there after the change.
func (c *change) exists(t table, name string) bool {
	if c.keep[t][name] {
		return true
	}
	_, written := c.ledger.chains[t][name]
	return written && !c.all && !c.drop[t][name]
}

// trunk makes the chains that lead to the groups' chains.
func (c *change) trunk(t table) {
	l := c.ledger
	for b := range uint16(fanOut) {
		if c.touches(func(g group) bool { return g.kind == services && g.branch == b }) {
			c.branch(t, b)
		}
	}
	var branches []uint16
	for b := range uint16(fanOut) {
		if c.exists(t, group{branch: b}.branchChain()) {
			branches = append(branches, b)
		}
	}
	if c.touches(func(g group) bool { return g.kind == nodePorts }) {
		c.nodePorts(t)
	}
	c.want(t, l.compiler.entrance(t, branches, l.nodePortAddrs(), l.node))
	switch {
	case t == filterTable:
		c.want(t, healthChecks(l.health))
	case c.touches(func(g group) bool { return g.kind == hairpins }):
		c.hairpins()
	}
}

// touches reports whether a group of some kind may have come or gone.
func (c *change) touches(which func(group) bool) bool {
	return c.all || slices.ContainsFunc(c.groups, which)
}

// branch makes the chain that tells leaves apart, or drops it if there is none.
func (c *change) branch(t table, b uint16) {
	var texts []string
	for leaf := range uint16(fanOut) {
		if g := (group{branch: b, leaf: leaf}); c.exists(t, g.chain()) {
			texts = append(texts, "-d "+c.ledger.compiler.family.lowest(leaf, treeBits)+" -j "+g.chain())
		}
	}
	name := group{branch: b}.branchChain()
	if len(texts) > 0 {
		c.want(t, static(name, texts))
	} else if _, written := c.ledger.chains[t][name]; written {
		c.drop[t][name] = true
	}
}

// nodePorts makes the chain that tells blocks of node ports apart.
func (c *change) nodePorts(t table) {
	var texts []string
	for _, g := range c.ledger.groups() {
		if g.kind == nodePorts && c.exists(t, g.chain()) {
			first, protocol := int(g.leaf)*portBlock, protocolName(g.protocol)
			texts = append(texts, fmt.Sprintf("-p %s -m %s --dport %d:%d -j %s", protocol, protocol, first, first+portBlock-1, g.chain()))
		}
	}
	c.want(t, static(nodePortsChain, texts))
}

func (c *change) hairpins() {
	var texts []string
	for b := range uint16(fanOut) {
		if g := (group{kind: hairpins, branch: b}); c.exists(natTable, g.chain()) {
			texts = append(texts, "-s "+c.ledger.compiler.family.lowest(b, 0)+" -j "+g.chain())
		}
	}
	c.want(natTable, static(hairpinChain, texts))
}

// done enters a table that was written in the ledger.
func (c *change) done(t table) {
	for name, d := range c.digests[t] {
		c.ledger.chains[t][name] = d
	}
	for g, names := range c.made[t] {
		if len(names) == 0 {
			delete(c.ledger.made[t], g)
		} else {
			c.ledger.made[t][g] = names
		}
	}
}
