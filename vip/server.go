package vip

import (
	"net/netip"
	"slices"
	"time"

	"signpost/discovery"
)

// Kind says which field of a Service a virtual server comes from.
type Kind uint8

// The four ways to reach a Service.
const (
	KindClusterIP Kind = iota
	KindNodePort
	KindExternalIP
	KindLoadBalancer
)

// String returns the kind's name: "ClusterIP".
func (k Kind) String() string {
	return [...]string{"ClusterIP", "NodePort", "ExternalIP", "LoadBalancer"}[k]
}

// External reports whether the kind is under the external traffic policy.
func (k Kind) External() bool { return k != KindClusterIP }

// Source is where a packet comes from, as seen by this node.
type Source uint8

const (
	// FromPod is a pod in the cluster: the local-traffic detector matches (P-20).
	FromPod Source = iota
	// FromNode is a process on this node: the source is one of its addresses.
	FromNode
	// FromOutside is everyone else.
	FromOutside
)

// String returns "pod", "node" or "outside".
func (s Source) String() string { return [...]string{"pod", "node", "outside"}[s] }

// Sources lists every source.
var Sources = [...]Source{FromPod, FromNode, FromOutside}

// Set names one of a virtual server's two lists of endpoints (P-04).
type Set uint8

// The two sets of endpoints.
const (
	ClusterSet Set = iota
	LocalSet
)

// String returns "cluster" or "local".
func (s Set) String() string { return [...]string{"cluster", "local"}[s] }

// Verdict is what becomes of a packet that no endpoint can take.
type Verdict uint8

const (
	// Reject answers at once: a TCP reset or an ICMP port unreachable.
	Reject Verdict = iota
	// Drop says nothing, so that a load balancer in front tries elsewhere (P-12).
	Drop
)

// String returns "reject" or "drop".
func (v Verdict) String() string { return [...]string{"reject", "drop"}[v] }

// Route says what a virtual server does with a new connection from one source.
type Route struct {
	Set   Set     // the endpoints to choose from
	SNAT  bool    // masquerade the source
	Empty Verdict // when the set is empty
}

// Endpoint is one destination of a virtual server.
type Endpoint struct {
	AddrPort netip.AddrPort
	Local    bool // on this node
	// Unplaced: nobody said on which node it runs, so it may be this one. It
	// is never local to a policy (P-10), but may reach itself (P-15).
	Unplaced bool
}

// VirtualServer is one frontend and all that a backend has to know to make it
// work: policy is decided. It is immutable; an unchanged virtual server is the
// same pointer from one [State] to the next.
//
// Every backend also masquerades a connection whose source is the endpoint
// chosen for it (hairpin, P-15): that can only be known per packet.
type VirtualServer struct {
	Frontend Frontend
	Owner    discovery.Key
	PortName string    // of the Service port; may be empty
	Kind     Kind      //
	Created  time.Time // of the owner: the oldest wins a conflict (P-26)

	// Routes is indexed by Source.
	Routes [len(Sources)]Route

	// Cluster and Local are the two sets, each sorted by address and port,
	// without duplicates. A set that no route uses is nil.
	Cluster []Endpoint
	Local   []Endpoint

	// Affinity is how long a client stays with an endpoint after its last new
	// connection; 0: no affinity (P-16).
	Affinity time.Duration

	// Restricted says that only sources inside SourceRanges may connect, all
	// others are dropped. An empty list then admits nobody (P-18).
	Restricted   bool
	SourceRanges []netip.Prefix

	// Scheduler overrides the IPVS scheduler for this server; empty: the default.
	Scheduler string
}

// Endpoints returns the set that a route uses.
func (v *VirtualServer) Endpoints(s Set) []Endpoint {
	if s == LocalSet {
		return v.Local
	}
	return v.Cluster
}

// Admits reports whether the source ranges let the address in.
func (v *VirtualServer) Admits(source netip.Addr) bool {
	return !v.Restricted || slices.ContainsFunc(v.SourceRanges, func(p netip.Prefix) bool { return p.Contains(source) })
}

// Equal reports whether two virtual servers mean the same to a backend.
func (v *VirtualServer) Equal(o *VirtualServer) bool {
	if v == o {
		return true
	}
	if v == nil || o == nil {
		return false
	}
	return v.Frontend == o.Frontend && v.Owner == o.Owner && v.PortName == o.PortName && v.Kind == o.Kind &&
		v.Created.Equal(o.Created) && v.Routes == o.Routes && v.Affinity == o.Affinity && v.Scheduler == o.Scheduler &&
		slices.Equal(v.Cluster, o.Cluster) && slices.Equal(v.Local, o.Local) &&
		v.Restricted == o.Restricted && slices.Equal(v.SourceRanges, o.SourceRanges)
}

// EndpointPorts lists the ports that the endpoints of both sets have, each once.
func (v *VirtualServer) EndpointPorts() []uint16 {
	var ports []uint16
	for _, endpoints := range [][]Endpoint{v.Cluster, v.Local} {
		for _, e := range endpoints {
			if port := e.AddrPort.Port(); !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}
