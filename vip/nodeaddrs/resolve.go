package nodeaddrs

import (
	"net/netip"
	"slices"
	"strings"

	"signpost/discovery"
	"signpost/vip"
)

// address is one address of one of this machine's interfaces.
type address struct {
	addr  netip.Addr
	iface string
}

// machine is what the interfaces say.
type machine struct {
	addrs []address
	// source4 and source6 are the addresses that the machine uses towards the
	// world; invalid if it has no way there.
	source4, source6 netip.Addr
}

// findings is a resolved node, and what a person should know about it.
type findings struct {
	node  *vip.Node
	notes []string
}

// resolve joins the configuration, the interfaces and what the source says of
// nodes and service ranges.
func resolve(c Config, m machine, snapshot *discovery.Snapshot) findings {
	nodes := snapshot.Nodes
	own := nodes[c.Name]
	c.ServiceCIDRs = withRanges(c.ServiceCIDRs, snapshot.ServiceCIDRs)
	n := &vip.Node{
		Name: c.Name, MasqueradeAll: c.MasqueradeAll, Detector: c.Detector,
		ServiceCIDRs: c.ServiceCIDRs, PeerAddrs: peers(c.Name, nodes),
	}
	f := findings{node: n}
	if own == nil && len(nodes) > 0 {
		f.note("no Node object has the name " + c.Name + ": nothing is local to it, Local policies and hints don't work")
	}
	if own != nil {
		n.Zone = own.Zone
		if c.PodCIDRsFromNode {
			n.Detector.CIDRs = slices.Clone(own.PodCIDRs)
		}
	}
	local := c.localAddrs(m)
	for _, v6 := range []bool{false, true} {
		n.Addrs = append(n.Addrs, ownAddrs(c, own, m, local, v6)...)
	}
	if len(n.Addrs) == 0 { // a machine without a network (P-21)
		n.Addrs = filter(local, netip.Addr.IsLoopback)
	}
	f.nodePorts(c, m, local)
	return f
}

// withRanges adds the ranges that are not among the configured ones.
func withRanges(configured, told []netip.Prefix) []netip.Prefix {
	list := slices.Clone(configured)
	for _, p := range told {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

func (f *findings) note(text string) { f.notes = append(f.notes, text) }

// ownAddrs returns the node's addresses of one family, primary first: those
// configured, else the Node object's, else those of the interfaces (P-21).
func ownAddrs(c Config, own *discovery.Node, m machine, local []netip.Addr, v6 bool) []netip.Addr {
	inFamily := func(a netip.Addr) bool { return a.Is6() == v6 }
	if configured := filter(c.Addrs, inFamily); len(configured) > 0 {
		return configured
	}
	if own != nil {
		if objects := filter(own.Addrs, inFamily); len(objects) > 0 {
			return objects
		}
	}
	return interfaceAddrs(m, local, v6)
}

// interfaceAddrs returns the addresses of one family by which others could
// reach this machine, the one that it uses itself first.
func interfaceAddrs(m machine, local []netip.Addr, v6 bool) []netip.Addr {
	addrs := filter(local, func(a netip.Addr) bool {
		return a.Is6() == v6 && !a.IsLoopback() && !a.IsLinkLocalUnicast()
	})
	source := m.source4
	if v6 {
		source = m.source6
	}
	if at := slices.Index(addrs, source); at > 0 {
		addrs = slices.Insert(slices.Delete(addrs, at, at+1), 0, source)
	}
	return addrs
}

// nodePorts fills in where node ports answer.
func (f *findings) nodePorts(c Config, m machine, local []netip.Addr) {
	for _, v6 := range []bool{false, true} {
		primary := f.primary(m, local, v6)
		addrs, everywhere := c.NodePorts.selectAddrs(modeOf(c.Mode), v6, local, primary)
		if everywhere && len(addrs) > 0 {
			f.note("node_port_addresses has no " + familyName(v6) + " range: " + familyName(v6) + " node ports answer on all addresses")
		}
		f.node.NodePortAddrs = append(f.node.NodePortAddrs, addrs...)
	}
}

// primary returns the first of the node's addresses that is on this machine:
// a Node object may name others, of a load balancer in front or of another
// machine. If it names no other, it is the interfaces' first.
func (f *findings) primary(m machine, local []netip.Addr, v6 bool) netip.Addr {
	named := filter(f.node.Addrs, func(a netip.Addr) bool { return a.Is6() == v6 })
	for _, a := range named {
		if slices.Contains(local, a) {
			return a
		}
	}
	here := interfaceAddrs(m, local, v6)
	if len(here) == 0 {
		return netip.Addr{}
	}
	if len(named) > 0 {
		f.note("the node's " + familyName(v6) + " addresses are not on this machine: " + here[0].String() + " takes their place for node ports")
	}
	return here[0]
}

// localAddrs lists the addresses of the interfaces, each once, without those
// that a dataplane bound there itself.
func (c Config) localAddrs(m machine) []netip.Addr {
	var addrs []netip.Addr
	for _, a := range m.addrs {
		virtual := slices.ContainsFunc(c.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(a.addr) })
		if !virtual && !isVirtualInterface(a.iface) && !slices.Contains(addrs, a.addr) {
			addrs = append(addrs, a.addr)
		}
	}
	return addrs
}

// isVirtualInterface reports whether an interface holds virtual addresses:
// ours, kube-proxy's and kube-router's.
func isVirtualInterface(name string) bool {
	return strings.HasPrefix(name, "signpost") || name == "kube-ipvs0" || name == "kube-dummy-if"
}

func peers(name string, nodes map[string]*discovery.Node) []netip.Addr {
	var addrs []netip.Addr
	for _, n := range nodes {
		if n.Name != name {
			addrs = append(addrs, n.Addrs...)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

func filter(addrs []netip.Addr, keep func(netip.Addr) bool) []netip.Addr {
	var kept []netip.Addr
	for _, a := range addrs {
		if keep(a) {
			kept = append(kept, a)
		}
	}
	return kept
}

func familyName(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}
