package discovery

import (
	"net/netip"
	"time"
)

// Pod is what is known about one pod.
type Pod struct {
	Key         Key
	UID         string
	Addrs       []netip.Addr // status.podIPs, primary first
	Node        string
	HostNetwork bool
	Phase       string // "Running", "Succeeded", ...; empty if unknown
	Ready       bool
	Terminating bool
	Created     time.Time
	Labels      map[string]string
}

// Live reports whether the pod can own its addresses: it is neither finished
// nor on its way out (dns-requirements P7).
func (p *Pod) Live() bool {
	return !p.Terminating && p.Phase != "Succeeded" && p.Phase != "Failed"
}

// Node is what is known about one node.
type Node struct {
	Name     string
	Zone     string         // label topology.kubernetes.io/zone; empty if none
	Addrs    []netip.Addr   // InternalIPs, then ExternalIPs
	PodCIDRs []netip.Prefix // spec.podCIDRs
	// Deleting is true when the node goes away: it has a deletion timestamp or
	// the taint ToBeDeletedByClusterAutoscaler (L-04).
	Deleting bool
}
