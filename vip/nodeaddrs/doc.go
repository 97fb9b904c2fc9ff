// Package nodeaddrs keeps the [vip.Node] of this machine current: its
// addresses, the addresses on which node ports answer, its zone, and the other
// nodes' addresses.
//
//	interfaces (netlink) ──┐
//	                       ├─> resolve ─> Cell[vip.Node] ─> Controller, backends
//	Node objects (store) ──┘
//
// [Source] is a [vip.NodeSource]: it lists the interfaces when an address
// comes or goes (and every now and then, in case it was not told), joins them
// with the Node objects of the store, and publishes a new node only if
// something is different (F-25, P-10, P-21, P-22).
//
// It needs no privileges. It does not choose who is a pod: that is the
// configuration's, handed through; only with [Config].PodCIDRsFromNode it
// reads the ranges from the Node object (P-20).
package nodeaddrs
