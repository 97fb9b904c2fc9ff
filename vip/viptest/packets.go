package viptest

import (
	"net/netip"

	"signpost/discovery"
	"signpost/vip"
)

// Packets lists the packets worth sending to a state: to every frontend, from
// every kind of source, from inside and outside of its source ranges, from each
// of its endpoints to itself, and to a port next to it that nobody asked for.
func Packets(s *vip.State) []Packet {
	var list []Packet
	for v := range s.All() {
		for _, to := range addressesOf(s, v.Frontend) {
			for _, client := range clients(s.Node(), v) {
				client.To = to
				list = append(list, client)
			}
			beside := to
			beside.Port = 9 // nobody's (RFC 863: discard)
			list = append(list, Packet{Source: vip.FromOutside, From: outsider(to.Is6()), To: beside})
		}
	}
	return append(list, strays(s.Node())...)
}

// addressesOf returns the frontend, or the addresses where a node port answers
// and one where it doesn't.
func addressesOf(s *vip.State, f vip.Frontend) []vip.Frontend {
	if !f.IsNodePort() {
		return []vip.Frontend{f}
	}
	list := []vip.Frontend{{Addr: outsider(f.Is6()), Port: f.Port, Protocol: f.Protocol}}
	for _, a := range s.Node().NodePortAddrs {
		if a.Is6() == f.Is6() {
			list = append(list, vip.Frontend{Addr: a, Port: f.Port, Protocol: f.Protocol})
		}
	}
	return list
}

func outsider(v6 bool) netip.Addr {
	if v6 {
		return addr("2001:db8:99::1")
	}
	return addr("198.18.0.1")
}

func clients(n *vip.Node, v *vip.VirtualServer) []Packet {
	list := []Packet{{Source: vip.FromOutside, From: outsider(v.Frontend.Is6())}}
	for _, a := range n.Addrs {
		if a.Is6() == v.Frontend.Is6() {
			list = append(list, Packet{Source: vip.FromNode, From: a})
		}
	}
	for _, p := range v.SourceRanges {
		list = append(list, Packet{Source: vip.FromOutside, From: p.Addr()})
	}
	for _, e := range append(v.Cluster[:len(v.Cluster):len(v.Cluster)], v.Local...) {
		list = append(list, Packet{Source: podSource(n), From: e.AddrPort.Addr()})
	}
	return list
}

// podSource is what a pod counts as on the node (P-20).
func podSource(n *vip.Node) vip.Source {
	if n.Detector.None() {
		return vip.FromOutside
	}
	return vip.FromPod
}

// strays are packets to addresses of the service ranges that are probably
// nobody's.
func strays(n *vip.Node) []Packet {
	var list []Packet
	for _, p := range n.ServiceCIDRs {
		to := vip.Frontend{Addr: p.Addr(), Port: 80, Protocol: discovery.TCP}
		list = append(list, Packet{Source: vip.FromOutside, From: outsider(p.Addr().Is6()), To: to})
	}
	return list
}
