package vip

import (
	"net/netip"
	"slices"

	"signpost/discovery"
)

type addr = netip.Addr

// edit collects changes to a state; the state itself stays as it is.
type edit struct {
	next     State
	services *discovery.Editor[*ServicePlan]
}

func (s *State) edit() *edit { return &edit{next: *s, services: s.services.Edit()} }

// state returns the result; the edit must not be used after it.
func (e *edit) state() *State {
	e.next.services = e.services.Map()
	return &e.next
}

// set replaces one service's plan. Virtual servers that equal their
// predecessor keep its pointer, so that an unchanged one is no change.
func (e *edit) set(p *ServicePlan) {
	old, _ := e.services.Get(p.Owner)
	if old != nil {
		keepPointers(old.Servers, p.Servers)
		e.unclaim(old.Servers)
	}
	e.claim(p.Servers)
	e.services.Set(p.Owner, p)
}

// remove drops one service's plan; one that is not there is no error.
func (e *edit) remove(owner discovery.Key) {
	if old, ok := e.services.Get(owner); ok {
		e.unclaim(old.Servers)
		e.services.Delete(owner)
	}
}

func keepPointers(old, now []*VirtualServer) {
	for i, v := range now {
		at, found := slices.BinarySearchFunc(old, v.Frontend, func(o *VirtualServer, f Frontend) int { return o.Frontend.Compare(f) })
		if found && old[at].Equal(v) {
			now[i] = old[at]
		}
	}
}

func (e *edit) claim(servers []*VirtualServer) {
	for a, group := range byAddr(servers) {
		c, _ := e.next.claims.Get(a)
		list := make([]*VirtualServer, 0, len(group)+c.len())
		if c != nil {
			list = append(list, c.list...)
		}
		for _, v := range group {
			if len(c.at(v.Frontend)) == 0 {
				e.next.count++
			}
			list = append(list, v)
		}
		slices.SortFunc(list, precedence)
		e.next.claims = withClaims(e.next.claims, a, list)
	}
}

func (e *edit) unclaim(servers []*VirtualServer) {
	for a, group := range byAddr(servers) {
		c, ok := e.next.claims.Get(a)
		if !ok {
			continue
		}
		list := slices.DeleteFunc(slices.Clone(c.list), func(v *VirtualServer) bool { return slices.Contains(group, v) })
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

func (c *claims) len() int {
	if c == nil {
		return 0
	}
	return len(c.list)
}

func withClaims(m discovery.AddrMap[*claims], a addr, list []*VirtualServer) discovery.AddrMap[*claims] {
	if len(list) == 0 {
		return m.Delete(a)
	}
	return m.Set(a, &claims{list})
}
