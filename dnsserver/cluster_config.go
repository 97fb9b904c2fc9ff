package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// PodMode says which names of the form 10-244-0-3.NAMESPACE.pod.ZONE exist.
type PodMode uint8

const (
	// PodsDisabled gives pods no names (P1).
	PodsDisabled PodMode = iota
	// PodsInsecure answers with whatever address the name spells, if the
	// namespace exists (P2).
	PodsInsecure
	// PodsVerified answers if a live pod of that namespace has the address (P3).
	PodsVerified
)

// DefaultTTL and MaxTTL bound the records' time to live, in seconds (G5).
const (
	DefaultTTL = 5
	MaxTTL     = 3600
)

// defaultZone is where PTR records point if there are reverse zones only.
const defaultZone = "cluster.local."

// Resolver answers a question from outside of the cluster zones: what the
// whole server would say to it. The reply is complete: a resolver that goes
// upstream repeats a truncated exchange over TCP (X13). req is the query that
// the question came up for; it tells who asks.
type Resolver func(ctx context.Context, question dns.Question, req *dns.Msg) (*dns.Msg, error)

// ClusterConfig is what the cluster zones do. The zero value plus Zones works.
type ClusterConfig struct {
	// Zones that are served: cluster zones and reverse zones, the first cluster
	// zone being where PTR records point. Networks are to be written as zones by
	// [ReverseZones] before.
	Zones []string
	// Multicluster lists those of the zones that follow the multi-cluster
	// specification: a schema version of their own, and imported services only.
	Multicluster []string
	// TTL of the records in seconds, 0..MaxTTL.
	TTL  uint32
	Pods PodMode

	EndpointPodNames   bool // endpoints without hostname are named after their pods
	NoEndpoints        bool // headless services and endpoints have no names (H25)
	IgnoreEmptyService bool // a ClusterIP service without ready endpoints has no name
	LiteralCNAME       bool // an ExternalName that is an address stays a CNAME (X10)
	PTRHostnameOnly    bool // where an address has a hostname, its other names are left out (R3)

	// Namespaces limits what is served to these; empty: all.
	Namespaces []string
	// NamespaceLabels limits it to namespaces by their labels; nil: all.
	NamespaceLabels func(labels map[string]string) bool
	// Labels limits it to services and pods by their labels; nil: all.
	Labels func(labels map[string]string) bool

	// Fallthrough lists the zones whose missing names are handed to the next
	// handler; "." means all, empty none.
	Fallthrough []string
	// PrivateReverse lists networks whose reverse names never leave this
	// server: an unknown one is answered here, fallthrough or not, and also
	// where no reverse zone was asked for (R12, RFC 6303).
	PrivateReverse []netip.Prefix

	// StartupTimeout is for how long after the start queries wait that the
	// source has yet to say something about; later, and if it is 0, they fail at
	// once. Names outside of the zones wait for nothing (L1, L2).
	StartupTimeout time.Duration

	// Addrs returns the server's own addresses, for ns.dns and for the NS
	// records (T2, T4); nil: none. It is asked at each new revision.
	Addrs func() []netip.Addr
	// RecursionAvailable is the RA bit of the answers (G2).
	RecursionAvailable bool
	// Resolve chases aliases that lead out of the zones; nil leaves them to the
	// client.
	Resolve Resolver
}

// Validate reports the first thing that is wrong with the configuration.
func (c ClusterConfig) Validate() error {
	for _, z := range slices.Concat(c.Zones, c.Multicluster, c.Fallthrough) {
		if !new(queryName).parse(dns.Fqdn(z)) {
			return fmt.Errorf("checking zone %q: not a domain name", z)
		}
	}
	for _, z := range c.Multicluster {
		if !slices.ContainsFunc(c.Zones, func(zone string) bool { return canonicalZone(zone) == canonicalZone(z) }) {
			return fmt.Errorf("checking multicluster zone %q: must be one of the zones served", z)
		}
	}
	switch {
	case len(c.Zones) == 0:
		return fmt.Errorf("checking zones: at least one is needed")
	case c.TTL > MaxTTL:
		return fmt.Errorf("checking ttl %d: must be between 0 and %d", c.TTL, MaxTTL)
	case len(c.Namespaces) > 0 && c.NamespaceLabels != nil:
		return fmt.Errorf("checking namespaces: can't be chosen by name and by labels at once")
	}
	return nil
}

// canonicalZone is a zone's name in lower case with its final dot.
func canonicalZone(z string) string { return strings.ToLower(dns.Fqdn(z)) }
