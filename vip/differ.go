package vip

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	"signpost/discovery"
)

// Differ is a [Backend] that can tell how the dataplane differs from a state.
type Differ interface {
	// Diff lists what an Apply of the state would change, in order; none: it
	// would change nothing. It only reads, and may run beside the backend's
	// other methods.
	Diff(ctx context.Context, want *State) ([]Difference, error)
}

// DifferenceKind says what is wrong with something in the dataplane.
type DifferenceKind uint8

// The kinds of differences.
const (
	Missing  DifferenceKind = iota // wanted, and not there
	Unwanted                       // there, and not wanted
	Other                          // there, but not as it is wanted
)

// Sign returns "+" for what an apply would add, "-" for what it would remove,
// and "~" for what it would change.
func (k DifferenceKind) Sign() string { return [...]string{"+", "-", "~"}[k] }

// Difference is one way in which a dataplane is not what a state asks for.
type Difference struct {
	Kind DifferenceKind
	// Frontend is what is concerned; the zero value: nothing that belongs to
	// one frontend.
	Frontend Frontend
	Owner    discovery.Key // of the frontend, if it is wanted
	Text     string        // what it is, in words
}

// String returns the difference as one line:
//
//	~ 10.96.0.1:443/TCP default/kubernetes: endpoint 192.168.6.139:6443 is missing
func (d Difference) String() string {
	parts := []string{d.Kind.Sign()}
	if d.Frontend != (Frontend{}) {
		parts = append(parts, d.Frontend.String())
	}
	if d.Owner != (discovery.Key{}) {
		parts = append(parts, d.Owner.String())
	}
	if len(parts) > 1 {
		parts[len(parts)-1] += ":"
	}
	return strings.Join(append(parts, d.Text), " ")
}

// SortDifferences puts differences in order: those of no frontend first, then
// by frontend, kind and text.
func SortDifferences(list []Difference) {
	slices.SortFunc(list, func(a, b Difference) int {
		return cmp.Or(a.Frontend.Compare(b.Frontend), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
}

// DiffFrontends compares what a dataplane holds, frontend by frontend, with a
// state: describe says in words how a frontend that is there differs from its
// virtual server. It is for backends that know what they hold by frontend.
func DiffFrontends[T any](held map[Frontend]T, want *State, describe func(T, *VirtualServer) []string) []Difference {
	var list []Difference
	for v := range want.All() {
		there, exists := held[v.Frontend]
		if !exists {
			list = append(list, Difference{Missing, v.Frontend, v.Owner, "is missing"})
			continue
		}
		for _, text := range describe(there, v) {
			list = append(list, Difference{Other, v.Frontend, v.Owner, text})
		}
	}
	for f := range held {
		if want.Get(f) == nil {
			list = append(list, Difference{Kind: Unwanted, Frontend: f, Text: "nobody wants it"})
		}
	}
	SortDifferences(list)
	return list
}

// DiffEndpoints says in words which endpoints are missing and which are there
// without being wanted.
func DiffEndpoints(held, want []Endpoint) []string {
	there, wanted := map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}
	for _, e := range held {
		there[e.AddrPort] = true
	}
	for _, e := range want {
		wanted[e.AddrPort] = true
	}
	return DiffAddrPorts(there, wanted)
}

// DiffAddrPorts is [DiffEndpoints] for sets of addresses and ports.
func DiffAddrPorts(held, want map[netip.AddrPort]bool) []string {
	var list []string
	for a := range want {
		if !held[a] {
			list = append(list, "endpoint "+a.String()+" is missing")
		}
	}
	for a := range held {
		if !want[a] {
			list = append(list, "endpoint "+a.String()+" is not wanted")
		}
	}
	slices.Sort(list)
	return list
}
