package lab

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
)

// Topology describes a lab. Names are host names, unique, of letters, digits,
// dots and dashes. Addresses are of one or two families.
type Topology struct {
	Nodes   []Node
	Pods    []Pod
	Outside []Host // clients that are neither node nor pod
	// Routes are what hosts outside of the cluster reach by way of a node:
	// the service range, load balancers' addresses.
	Routes []Route
}

// Node is a machine of the cluster. The first address of each family is the
// one that it sends from.
type Node struct {
	Name  string
	Addrs []netip.Addr
}

// Pod runs an echo server on all of its addresses and ports, TCP and UDP.
type Pod struct {
	Name  string
	Node  string
	Addrs []netip.Addr
	Ports []uint16 // none: no server
	// HostNetwork: it has no namespace of its own but its node's; its addresses
	// are to be the node's.
	HostNetwork bool
}

// Host is a machine outside of the cluster.
type Host struct {
	Name  string
	Addrs []netip.Addr
}

// Route leads from the router to a node.
type Route struct {
	To   netip.Prefix
	Node string
}

// Router is the name of the host that joins all others.
const Router = "router"

// PodInterfaces is the prefix of the interfaces on a node that lead to its pods
// (vip-requirements P-20); the other one is eth0.
const PodInterfaces = "pod"

// Default returns two nodes with two pods each and a client outside. The
// service range is reached by way of the first node. With v6, every host has an
// address of each family.
func Default(v6 bool) Topology {
	t := Topology{
		Nodes: []Node{{Name: "node-a", Addrs: addrs("192.168.6.140")}, {Name: "node-b", Addrs: addrs("192.168.6.141")}},
		Pods: []Pod{
			{Name: "pod-a", Node: "node-a", Addrs: addrs("172.16.85.10"), Ports: []uint16{80, 8080}},
			{Name: "pod-b", Node: "node-a", Addrs: addrs("172.16.85.11"), Ports: []uint16{80, 8080}},
			{Name: "pod-c", Node: "node-b", Addrs: addrs("172.16.58.10"), Ports: []uint16{80, 8080}},
			{Name: "pod-d", Node: "node-b", Addrs: addrs("172.16.58.11"), Ports: []uint16{80, 8080}},
		},
		Outside: []Host{{Name: "outside", Addrs: addrs("198.51.100.10")}},
		Routes: []Route{
			{To: netip.MustParsePrefix("10.96.0.0/12"), Node: "node-a"},
			{To: netip.MustParsePrefix("203.0.113.0/24"), Node: "node-a"},
		},
	}
	if v6 {
		for i, second := range []string{"fd00:6::140", "fd00:6::141"} {
			t.Nodes[i].Addrs = append(t.Nodes[i].Addrs, netip.MustParseAddr(second))
		}
		for i, second := range []string{"fd00:172:85::10", "fd00:172:85::11", "fd00:172:58::10", "fd00:172:58::11"} {
			t.Pods[i].Addrs = append(t.Pods[i].Addrs, netip.MustParseAddr(second))
		}
		t.Outside[0].Addrs = append(t.Outside[0].Addrs, netip.MustParseAddr("2001:db8:100::10"))
		t.Routes = append(t.Routes, Route{To: netip.MustParsePrefix("fd00:96::/112"), Node: "node-a"})
	}
	return t
}

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,62}$`)

// check returns the first thing that is wrong with a topology.
func (t Topology) check() error {
	seen := map[string]bool{Router: true}
	name := func(n string) error {
		if !hostName.MatchString(n) || seen[n] {
			return fmt.Errorf("checking the topology: host %q: must be a host name, and unique", n)
		}
		seen[n] = true
		return nil
	}
	for _, n := range t.names() {
		if err := name(n); err != nil {
			return err
		}
	}
	nodes := map[string]Node{}
	for _, n := range t.Nodes {
		nodes[n.Name] = n
	}
	for _, p := range t.Pods {
		if err := p.check(nodes); err != nil {
			return fmt.Errorf("checking the topology: pod %q: %w", p.Name, err)
		}
	}
	for _, r := range t.Routes {
		if _, ok := nodes[r.Node]; !ok {
			return fmt.Errorf("checking the topology: route to %s: there is no node %q", r.To, r.Node)
		}
	}
	return nil
}

// names lists the names of all hosts but the router.
func (t Topology) names() []string {
	var list []string
	for _, n := range t.Nodes {
		list = append(list, n.Name)
	}
	for _, p := range t.Pods {
		list = append(list, p.Name)
	}
	for _, h := range t.Outside {
		list = append(list, h.Name)
	}
	return list
}

func (p Pod) check(nodes map[string]Node) error {
	node, ok := nodes[p.Node]
	if !ok {
		return fmt.Errorf("there is no node %q", p.Node)
	}
	for _, a := range p.Addrs {
		if !first(node.Addrs, a.Is6()).IsValid() {
			return fmt.Errorf("address %s: node %q has none of that family", a, p.Node)
		}
		if p.HostNetwork && !slices.Contains(node.Addrs, a) {
			return fmt.Errorf("address %s: is not one of node %q", a, p.Node)
		}
	}
	return nil
}

// first returns the first address of a family, or the zero address.
func first(list []netip.Addr, v6 bool) netip.Addr {
	for _, a := range list {
		if a.Is6() == v6 {
			return a
		}
	}
	return netip.Addr{}
}

// has6 reports whether there is any IPv6 in the lab.
func (t Topology) has6() bool {
	for _, n := range t.Nodes {
		if first(n.Addrs, true).IsValid() {
			return true
		}
	}
	return slices.ContainsFunc(t.Outside, func(h Host) bool { return first(h.Addrs, true).IsValid() })
}
