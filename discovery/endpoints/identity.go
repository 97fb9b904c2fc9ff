package endpoints

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// identity tells which endpoint an endpoint is, whatever its state: the same
// address of another pod, or under another name, is another endpoint.
type identity struct {
	address, hostname, kind, namespace, name string

	uid types.UID
}

func identityOf(ep *discoveryv1.Endpoint) identity {
	id := identity{hostname: value(ep.Hostname)}
	if len(ep.Addresses) > 0 {
		id.address = ep.Addresses[0]
	}
	if ref := ep.TargetRef; ref != nil {
		id.kind, id.namespace, id.name, id.uid = ref.Kind, ref.Namespace, ref.Name, ref.UID
	}
	return id
}

// sortedEndpoints orders by address, then by the rest of the identity, and
// keeps the first of those that are the same.
func sortedEndpoints(endpoints []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	type entry struct {
		addr netip.Addr
		id   identity
		ep   *discoveryv1.Endpoint
	}
	entries := make([]entry, len(endpoints))
	for i := range endpoints {
		id := identityOf(&endpoints[i])
		addr, _ := parseAddr(id.address)
		entries[i] = entry{addr, id, &endpoints[i]}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		if c := a.addr.Compare(b.addr); c != 0 {
			return c
		}
		return a.id.compare(b.id)
	})
	entries = slices.CompactFunc(entries, func(a, b entry) bool { return a.id == b.id })
	sorted := make([]discoveryv1.Endpoint, len(entries))
	for i, e := range entries {
		sorted[i] = *e.ep
	}
	return sorted
}

// compare orders identities of one address.
func (id identity) compare(o identity) int {
	return cmp.Or(
		strings.Compare(id.hostname, o.hostname), strings.Compare(id.kind, o.kind), strings.Compare(id.namespace, o.namespace),
		strings.Compare(id.name, o.name), strings.Compare(string(id.uid), string(o.uid)),
	)
}

// equalEndpoints compares all that a consumer can see; the resource version of
// the target is not among it (E-14).
func equalEndpoints(a, b *discoveryv1.Endpoint) bool {
	return slices.Equal(a.Addresses, b.Addresses) && equalConditions(&a.Conditions, &b.Conditions) &&
		equalPointers(a.Hostname, b.Hostname) && equalPointers(a.NodeName, b.NodeName) &&
		equalPointers(a.Zone, b.Zone) && equalHints(a.Hints, b.Hints) && equalTargets(a.TargetRef, b.TargetRef)
}

func equalConditions(a, b *discoveryv1.EndpointConditions) bool {
	return equalPointers(a.Ready, b.Ready) && equalPointers(a.Serving, b.Serving) &&
		equalPointers(a.Terminating, b.Terminating)
}

func equalHints(a, b *discoveryv1.EndpointHints) bool {
	left, right := value(a), value(b)
	return slices.Equal(left.ForZones, right.ForZones) && slices.Equal(left.ForNodes, right.ForNodes)
}

func equalTargets(a, b *corev1.ObjectReference) bool {
	left, right := value(a), value(b)
	left.ResourceVersion, right.ResourceVersion = "", ""
	return left == right && (a == nil) == (b == nil)
}

func equalPointers[T comparable](a, b *T) bool {
	return (a == nil) == (b == nil) && value(a) == value(b)
}
