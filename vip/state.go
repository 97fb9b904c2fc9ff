package vip

import (
	"cmp"
	"iter"
	"slices"

	"signpost/discovery"
)

// State is the dataplane's desired state on one node. It is immutable and
// shares everything that did not change with the state that it was made from.
type State struct {
	node     *Node
	services discovery.Map[*ServicePlan]
	claims   discovery.AddrMap[*claims]
	count    int // frontends, each counted once
}

// ServicePlan is what one service asks of the dataplane.
type ServicePlan struct {
	Owner   discovery.Key
	Servers []*VirtualServer // sorted by frontend, no frontend twice
	// HealthCheck is the health-check node port; 0: none (F-09).
	HealthCheck HealthCheck
	// Warnings are the parts of the service that planning left out, and why;
	// one sentence each, naming field and value.
	Warnings []string
}

// equal reports whether two plans of one service are the same; equal servers
// share their pointer.
func (p *ServicePlan) equal(o *ServicePlan) bool {
	return p.Owner == o.Owner && p.HealthCheck == o.HealthCheck &&
		slices.Equal(p.Servers, o.Servers) && slices.Equal(p.Warnings, o.Warnings)
}

// HealthCheck is a health-check node port and what it has to tell.
type HealthCheck struct {
	Port       uint16
	LocalReady int // ready endpoints on this node
}

// claims are the virtual servers that want frontends of one address, sorted by
// frontend, and among equals the winner first.
type claims struct{ list []*VirtualServer }

// NewState returns a state with the given plans.
func NewState(node *Node, plans ...*ServicePlan) *State {
	e := (&State{node: node}).edit()
	for _, p := range plans {
		e.set(p.Owner, p)
	}
	return e.state()
}

// Node returns the node that the state was planned for; never nil in a state
// made by [NewState] with a node.
func (s *State) Node() *Node { return s.node }

// Len returns the number of frontends.
func (s *State) Len() int { return s.count }

// Plan returns one service's plan, and nil if it has none.
func (s *State) Plan(owner discovery.Key) *ServicePlan {
	p, _ := s.services.Get(owner)
	return p
}

// Plans yields every service's plan, in no order.
func (s *State) Plans() iter.Seq2[discovery.Key, *ServicePlan] { return s.services.All() }

// Get returns the virtual server that owns the frontend, and nil if there is none.
func (s *State) Get(f Frontend) *VirtualServer {
	c, _ := s.claims.Get(f.Addr)
	if list := c.at(f); len(list) > 0 {
		return list[0]
	}
	return nil
}

// Losers returns the virtual servers that want the frontend and don't have it,
// next in line first (P-26).
func (s *State) Losers(f Frontend) []*VirtualServer {
	c, _ := s.claims.Get(f.Addr)
	if list := c.at(f); len(list) > 1 {
		return list[1:]
	}
	return nil
}

// All yields the virtual server of every frontend, in the order of
// [Frontend.Compare].
func (s *State) All() iter.Seq[*VirtualServer] {
	return func(yield func(*VirtualServer) bool) {
		for _, c := range s.claims.All() {
			for v := range c.winners {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// Changes yields every frontend whose virtual server differs between two
// states, in order; a missing one is nil. Before may be nil: the empty state.
// The cost follows the change.
func Changes(before, after *State) iter.Seq2[*VirtualServer, *VirtualServer] {
	return func(yield func(before, after *VirtualServer) bool) {
		more := true
		discovery.DiffAddrs(before.claimed(), after.claimed(), func(_ addr, old, now *claims) {
			if more {
				more = diffClaims(old, now, yield)
			}
		})
	}
}

// Without returns the state without some frontends: what is known to be in the
// dataplane when those failed. The services' plans stay.
func (s *State) Without(failed map[Frontend]error) *State {
	next := *s
	for f := range failed {
		c, ok := next.claims.Get(f.Addr)
		if !ok || len(c.at(f)) == 0 {
			continue
		}
		next.count--
		kept := slices.DeleteFunc(slices.Clone(c.list), func(v *VirtualServer) bool { return v.Frontend == f })
		next.claims = withClaims(next.claims, f.Addr, kept)
	}
	return &next
}

func (s *State) claimed() discovery.AddrMap[*claims] {
	if s == nil {
		return discovery.AddrMap[*claims]{}
	}
	return s.claims
}

// at returns the claimants of one frontend, the winner first.
func (c *claims) at(f Frontend) []*VirtualServer {
	if c == nil {
		return nil
	}
	start, found := slices.BinarySearchFunc(c.list, f, byFrontend)
	if !found {
		return nil
	}
	end := start + 1
	for end < len(c.list) && c.list[end].Frontend == f {
		end++
	}
	return c.list[start:end]
}

// winners yields the first claimant of each frontend.
func (c *claims) winners(yield func(*VirtualServer) bool) {
	if c == nil {
		return
	}
	for i, v := range c.list {
		if i > 0 && c.list[i-1].Frontend == v.Frontend {
			continue
		}
		if !yield(v) {
			return
		}
	}
}

func diffClaims(before, after *claims, yield func(before, after *VirtualServer) bool) bool {
	old := slices.Collect(before.winners)
	now := slices.Collect(after.winners)
	for len(old)+len(now) > 0 {
		was, is := headPair(&old, &now)
		if was != is && !yield(was, is) {
			return false
		}
	}
	return true
}

// headPair takes the lowest frontend's servers off two sorted lists.
func headPair(old, now *[]*VirtualServer) (was, is *VirtualServer) {
	order := 0
	switch {
	case len(*old) == 0:
		order = 1
	case len(*now) == 0:
		order = -1
	default:
		order = (*old)[0].Frontend.Compare((*now)[0].Frontend)
	}
	if order <= 0 {
		was, *old = (*old)[0], (*old)[1:]
	}
	if order >= 0 {
		is, *now = (*now)[0], (*now)[1:]
	}
	return was, is
}

// precedence orders claimants: by frontend, then cluster addresses before all
// others (nobody can take another service's cluster address by writing it into
// externalIPs, CVE-2020-8554), then the oldest service, then by name. A service
// of unknown age counts as the youngest.
func precedence(a, b *VirtualServer) int {
	kind := 0
	switch {
	case a.Kind == KindClusterIP && b.Kind != KindClusterIP:
		kind = -1
	case a.Kind != KindClusterIP && b.Kind == KindClusterIP:
		kind = 1
	}
	age := 0
	switch {
	case a.Created.IsZero() != b.Created.IsZero():
		age = 1
		if b.Created.IsZero() {
			age = -1
		}
	default:
		age = a.Created.Compare(b.Created)
	}
	return cmp.Or(a.Frontend.Compare(b.Frontend), kind, age, a.Owner.Compare(b.Owner))
}
