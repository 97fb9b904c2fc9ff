package userspace

import (
	"net/netip"
	"slices"

	"signpost/vip"
)

// node answers where a client is, from addresses alone.
type node struct {
	*vip.Node
	addrs map[netip.Addr]struct{}
}

func newNode(n *vip.Node) *node {
	if n == nil {
		n = &vip.Node{}
	}
	made := &node{Node: n, addrs: make(map[netip.Addr]struct{}, len(n.Addrs))}
	for _, a := range n.Addrs {
		made.addrs[a.Unmap()] = struct{}{}
	}
	return made
}

// primary returns the node's first address of a family; the zero value: none.
func (n *node) primary(v6 bool) netip.Addr {
	for _, a := range n.Addrs {
		if a.Is6() == v6 {
			return a
		}
	}
	return netip.Addr{}
}

// source classifies a client by its address and the one that it connected to.
// A process of this node that connects to a made-local address without a choice
// of its own has that very address as its source.
func (n *node) source(client, local netip.Addr) vip.Source {
	_, own := n.addrs[client]
	switch {
	case own || client == local:
		return vip.FromNode
	case slices.ContainsFunc(n.Detector.CIDRs, func(p netip.Prefix) bool { return p.Contains(client) }):
		return vip.FromPod
	case client.IsLoopback():
		return vip.FromNode
	}
	return vip.FromOutside
}

// action is what becomes of a client.
type action uint8

const (
	serve action = iota
	reject
	drop
)

// act says what a virtual server does with clients of one class.
func act(v *vip.VirtualServer, s vip.Source) action {
	route := v.Routes[s]
	switch {
	case len(v.Endpoints(route.Set)) > 0:
		return serve
	case route.Empty == vip.Drop:
		return drop
	}
	return reject
}

// refusesAll reports whether no client at all gets anything but a refusal: the
// kernel does that best, by having no socket there. Who is outside of the
// source ranges is not even to know that nobody is there.
func refusesAll(v *vip.VirtualServer) bool {
	return !v.Restricted && !slices.ContainsFunc(vip.Sources[:], func(s vip.Source) bool { return act(v, s) != reject })
}

// judge says what becomes of one client, and if it is served, the endpoints to
// choose from.
func (n *node) judge(v *vip.VirtualServer, client, local netip.Addr) (action, vip.Set) {
	if !v.Admits(client) {
		return drop, 0
	}
	s := n.source(client, local)
	return act(v, s), v.Routes[s].Set
}
