package allocator

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last uint16 }

// DefaultNodePorts is the range that an API server uses unless told otherwise.
var DefaultNodePorts = PortRange{First: 30000, Last: 32767}

// ParsePortRange reads "30000-32767".
func ParsePortRange(s string) (PortRange, error) {
	var first, last uint16
	var rest string
	if n, _ := fmt.Sscanf(s, "%d-%d%s", &first, &last, &rest); n != 2 || first == 0 || first > last {
		return PortRange{}, fmt.Errorf("parsing port range %q: must be FIRST-LAST with 1 <= FIRST <= LAST <= 65535", s)
	}
	return PortRange{First: first, Last: last}, nil
}

// String returns the range as "30000-32767".
func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// Family is an IP family.
type Family uint8

// The two families.
const (
	IPv4 Family = iota
	IPv6
)

// String returns the family as the Kubernetes API spells it.
func (f Family) String() string {
	if f == IPv6 {
		return "IPv6"
	}
	return "IPv4"
}

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() || a.Is4In6() {
		return IPv4
	}
	return IPv6
}

// Request says everything that one service wants. What it does not want any
// more is released.
type Request struct {
	// Owner identifies the service: "namespace/name".
	Owner string
	// Created is the service's creation time, zero if unknown. Older services
	// win conflicts; unknown counts as youngest.
	Created time.Time
	// Families of the cluster IPs, primary first; none for a headless or an
	// ExternalName service.
	Families []Family
	// ClusterIPs are the addresses asked for by name: as long as Families or
	// shorter, zero where any address will do.
	ClusterIPs []netip.Addr
	// Ports in the order of spec.ports.
	Ports []PortRequest
	// HealthCheck asks for a health-check node port.
	HealthCheck bool
	// HealthCheckNodePort is the one asked for by name, or 0.
	HealthCheckNodePort uint16
	// Balancer asks for load-balancer addresses.
	Balancer BalancerRequest
}

// PortRequest is one port of a service.
type PortRequest struct {
	Name     string
	Protocol string
	Port     uint16
	NodePort uint16 // asked for by name; 0: none
	Allocate bool   // give it a node port if none is asked for
}

// BalancerRequest asks for load-balancer addresses.
type BalancerRequest struct {
	// Allocate asks for one address of each family that has a pool.
	Allocate bool
	// Named are addresses asked for by name. Those that lie in no pool or
	// belong to another service are passed over with a warning.
	Named []netip.Addr
	// Field is the path that a warning about Named carries.
	Field string
}

// Assignment is what a service owns.
type Assignment struct {
	// ClusterIPs, primary first.
	ClusterIPs []netip.Addr `json:"clusterIPs,omitempty"`
	// NodePorts by the name of the port.
	NodePorts           map[string]uint16 `json:"nodePorts,omitempty"`
	HealthCheckNodePort uint16            `json:"healthCheckNodePort,omitempty"`
	LoadBalancerIPs     []netip.Addr      `json:"loadBalancerIPs,omitempty"`
}

func (a Assignment) equal(b Assignment) bool {
	return slices.Equal(a.ClusterIPs, b.ClusterIPs) && maps.Equal(a.NodePorts, b.NodePorts) &&
		a.HealthCheckNodePort == b.HealthCheckNodePort && slices.Equal(a.LoadBalancerIPs, b.LoadBalancerIPs)
}

func (a Assignment) empty() bool { return a.equal(Assignment{}) }

// Result is the answer to a [Request].
type Result struct {
	// Assignment is what the service owns now. When Errors is not empty, it is
	// what it owned before, unless Lost.
	Assignment Assignment
	// Errors says why the request was not granted.
	Errors []*FieldError
	// Warnings are about what the service works without.
	Warnings []*FieldError
	// Changed is true if the service owns something else than before.
	Changed bool
	// Lost is true if the request was refused and what the service had owned
	// went, in the same batch, to one that asked for it by name.
	Lost bool
}

// FieldError says what is wrong with which field, in an API server's words.
type FieldError struct {
	Field  string // such as spec.ports[1].nodePort
	Value  any    // as written: a string or a number; nil if it isn't a value's fault
	Reason string
}

// Error returns the error as an API server prints it.
func (e *FieldError) Error() string {
	switch v := e.Value.(type) {
	case nil:
		return fmt.Sprintf("%s: Internal error: %s", e.Field, e.Reason)
	case string:
		return fmt.Sprintf("%s: Invalid value: %q: %s", e.Field, v, e.Reason)
	default:
		return fmt.Sprintf("%s: Invalid value: %v: %s", e.Field, v, e.Reason)
	}
}
