package vip

import (
	"net/netip"
	"slices"

	"signpost/discovery"
)

type addr = netip.Addr

// edit collects changes to a state; the state itself stays as it is.
type edit struct {
	base     *State
	next     State
	services *discovery.Editor[*ServicePlan]
	changed  bool
}

func (s *State) edit() *edit { return &edit{base: s, next: *s, services: s.services.Edit()} }

// state returns the result, which is the state edited if nothing changed; the
// edit must not be used after it.
func (e *edit) state() *State {
	if !e.changed {
		return e.base
	}
	e.next.services = e.services.Map()
	return &e.next
}

// setNode changes the node that the state is for.
func (e *edit) setNode(n *Node) {
	if e.next.node != n {
		e.next.node, e.changed = n, true
	}
}

// set replaces one service's plan; nil removes it. Virtual servers and plans
// that equal their predecessors keep the pointer, so that an unchanged one is
// no change.
func (e *edit) set(owner discovery.Key, p *ServicePlan) {
	old, _ := e.services.Get(owner)
	switch {
	case p == nil && old == nil:
		return
	case p == nil:
		e.unclaim(old.Servers)
		e.services.Delete(owner)
	case old == nil:
		e.claim(p.Servers)
		e.services.Set(owner, p)
	default:
		p.Servers = withOldPointers(old.Servers, p.Servers)
		if p.equal(old) {
			return
		}
		if !slices.Equal(old.Servers, p.Servers) {
			e.unclaim(old.Servers)
			e.claim(p.Servers)
		}
		e.services.Set(owner, p)
	}
	e.changed = true
}

// withOldPointers returns the servers that are wanted now, as the old value
// where it means the same. Both lists are sorted.
func withOldPointers(old, now []*VirtualServer) []*VirtualServer {
	merged := slices.Clone(now)
	for i, v := range now {
		at, found := slices.BinarySearchFunc(old, v.Frontend, byFrontend)
		if found && old[at].Equal(v) {
			merged[i] = old[at]
		}
	}
	return merged
}

func (e *edit) claim(servers []*VirtualServer) {
	for a, group := range byAddr(servers) {
		c, _ := e.next.claims.Get(a)
		list := slices.Grow(slices.Clone(c.all()), len(group))
		for _, v := range group {
			if len(c.at(v.Frontend)) == 0 {
				e.next.count++
			}
			at, _ := slices.BinarySearchFunc(list, v, precedence)
			list = slices.Insert(list, at, v)
		}
		e.next.claims = withClaims(e.next.claims, a, list)
	}
}

func (e *edit) unclaim(servers []*VirtualServer) {
	for a, group := range byAddr(servers) {
		c, ok := e.next.claims.Get(a)
		if !ok {
			continue
		}
		list := slices.DeleteFunc(slices.Clone(c.list), func(v *VirtualServer) bool {
			at, found := slices.BinarySearchFunc(group, v.Frontend, byFrontend)
			return found && group[at] == v
		})
		left := &claims{list}
		for _, v := range group {
			if len(c.at(v.Frontend)) > 0 && len(left.at(v.Frontend)) == 0 {
				e.next.count--
			}
		}
		e.next.claims = withClaims(e.next.claims, a, list)
	}
}

// byAddr yields the servers of each address; the servers are sorted.
func byAddr(servers []*VirtualServer) func(yield func(addr, []*VirtualServer) bool) {
	return func(yield func(addr, []*VirtualServer) bool) {
		for start := 0; start < len(servers); {
			a, end := servers[start].Frontend.Addr, start+1
			for end < len(servers) && servers[end].Frontend.Addr == a {
				end++
			}
			if !yield(a, servers[start:end]) {
				return
			}
			start = end
		}
	}
}

func byFrontend(v *VirtualServer, f Frontend) int { return v.Frontend.Compare(f) }

func (c *claims) all() []*VirtualServer {
	if c == nil {
		return nil
	}
	return c.list
}

func withClaims(m discovery.AddrMap[*claims], a addr, list []*VirtualServer) discovery.AddrMap[*claims] {
	if len(list) == 0 {
		return m.Delete(a)
	}
	return m.Set(a, &claims{list})
}
