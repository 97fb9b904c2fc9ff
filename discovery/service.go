package discovery

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Kind says what a Service is to its clients.
type Kind uint8

const (
	// ClusterIP is a service with virtual addresses of its own (also the
	// NodePort and LoadBalancer types, which add to it).
	ClusterIP Kind = iota
	// Headless is a service without a virtual address: DNS answers with its
	// endpoints.
	Headless
	// ExternalName is an alias of a DNS name.
	ExternalName
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Headless:
		return "Headless"
	case ExternalName:
		return "ExternalName"
	default:
		return "ClusterIP"
	}
}

// Type is a Service's spec.type.
type Type uint8

// The four values of spec.type.
const (
	TypeClusterIP Type = iota
	TypeNodePort
	TypeLoadBalancer
	TypeExternalName
)

var typeNames = [...]string{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}

// String returns the type as the Kubernetes API spells it.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// TrafficPolicy is the value of an internal or external traffic policy.
type TrafficPolicy uint8

const (
	// PolicyCluster lets traffic go to every endpoint.
	PolicyCluster TrafficPolicy = iota
	// PolicyLocal keeps traffic on the node where it arrived.
	PolicyLocal
)

// String returns the policy as the Kubernetes API spells it.
func (p TrafficPolicy) String() string {
	if p == PolicyLocal {
		return "Local"
	}
	return "Cluster"
}

// Port is one port of a Service.
type Port struct {
	Name       string   // empty for an unnamed port
	Protocol   Protocol // TCP by default
	Port       uint16   // 1..65535
	NodePort   uint16   // 0: none
	TargetPort string   // number or name, as written; for display, never for joining (P-03)
}

// EndpointPort is a port that every endpoint of a slice listens on.
type EndpointPort struct {
	Name     string
	Protocol Protocol
	Port     uint16
}

// TargetRef names the object behind an endpoint, usually a pod.
type TargetRef struct {
	Kind      string // "Pod"; empty: none
	Namespace string
	Name      string
	UID       string
}

// Endpoint is one address that serves a Service.
type Endpoint struct {
	Addr        netip.Addr // canonical, never IPv4-mapped
	Hostname    string     // empty: none
	Node        string     // name of the node; empty: unknown, hence never local (P-10)
	Zone        string
	ForZones    []string // zone hints
	ForNodes    []string // node hints
	Ready       bool
	Serving     bool
	Terminating bool
	Target      TargetRef
}

// Slice is a group of endpoints that share their ports, as an EndpointSlice
// is. A nil or empty Ports means that the endpoints have no ports. All
// addresses are of one family.
type Slice struct {
	Name      string
	Ports     []EndpointPort
	Endpoints []Endpoint
	// Trigger is when the change that led to this slice happened
	// (annotation endpoints.kubernetes.io/last-change-trigger-time); zero if unknown.
	Trigger time.Time
}

// Affinity is a Service's session affinity.
type Affinity struct {
	ClientIP bool
	Timeout  time.Duration // 1 s .. 24 h when ClientIP is set
}

// Service is everything that is known about one Service, its endpoints
// included. It is immutable once it was given to a [Tx]: whoever wants another
// one makes a copy. Slices, maps and pointers inside are shared between
// revisions, so that an unchanged service is the same pointer.
type Service struct {
	Key     Key
	UID     string
	Created time.Time // zero if unknown
	Kind    Kind
	Type    Type

	// ClusterIPs holds the virtual addresses, primary first; empty for a
	// headless or ExternalName service and for one that none is allocated to yet.
	ClusterIPs []netip.Addr
	// ExternalIPs is spec.externalIPs.
	ExternalIPs []netip.Addr
	// LoadBalancerIPs is status.loadBalancer.ingress[].ip with ipMode VIP or none (P-17).
	LoadBalancerIPs []netip.Addr
	// Ingress is status.loadBalancer.ingress as a person reads it: addresses
	// and host names, also those that are not programmed.
	Ingress []string

	Ports  []Port
	Slices []*Slice

	InternalPolicy TrafficPolicy
	ExternalPolicy TrafficPolicy
	Affinity       Affinity
	// SourceRanges is spec.loadBalancerSourceRanges, parsed. When
	// SourceRangesSet is true and no entry of a family is usable, that family
	// is closed, not open (P-18).
	SourceRanges        []netip.Prefix
	SourceRangesSet     bool
	HealthCheckNodePort uint16 // 0: none

	PublishNotReady bool
	ExternalName    string // without the trailing dot; ExternalName services only
	Selector        map[string]string
	Labels          map[string]string
	// Annotations holds only those that signpost reads (scheduler overrides).
	Annotations map[string]string
	// Proxy is the label service.kubernetes.io/service-proxy-name; HasProxy
	// tells an empty label from a missing one (P-01).
	Proxy    string
	HasProxy bool
}

// Equal reports whether two services are the same in everything that a
// consumer can see.
func (s *Service) Equal(o *Service) bool {
	if s == o {
		return true
	}
	if s == nil || o == nil {
		return false
	}
	return s.equalIdentity(o) && s.equalSpec(o) && slices.EqualFunc(s.Slices, o.Slices, (*Slice).Equal)
}

// Endpoints calls yield for each endpoint of each slice, with the slice that
// it stands in, until yield returns false.
func (s *Service) Endpoints(yield func(*Slice, *Endpoint) bool) {
	for _, slice := range s.Slices {
		for i := range slice.Endpoints {
			if !yield(slice, &slice.Endpoints[i]) {
				return
			}
		}
	}
}

// ExternallyAccessible reports whether the service has node ports, external
// or load-balancer addresses (P-11).
func (s *Service) ExternallyAccessible() bool {
	hasNodePort := slices.ContainsFunc(s.Ports, func(p Port) bool { return p.NodePort != 0 })
	return hasNodePort || len(s.ExternalIPs) > 0 || len(s.LoadBalancerIPs) > 0
}

// Equal reports whether two slices hold the same ports and endpoints in the
// same order. The trigger time does not count: it says when, not what.
func (s *Slice) Equal(o *Slice) bool {
	if s == o {
		return true
	}
	if s == nil || o == nil {
		return false
	}
	return s.Name == o.Name && slices.Equal(s.Ports, o.Ports) &&
		slices.EqualFunc(s.Endpoints, o.Endpoints, func(a, b Endpoint) bool { return a.equal(&b) })
}
