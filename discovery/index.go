package discovery

import (
	"maps"
	"net/netip"
	"slices"
)

// move is an owner's coming to an address, or its going.
type move struct {
	owner       Key
	pod, member bool
}

// reindexService moves the address index from one version of a service to the
// next; either may be nil.
func (tx *Tx) reindexService(before, after *Service) {
	tx.reindex(serviceAddrs(before), serviceAddrs(after), move{owner: serviceKey(before, after)})
}

// reindexPod does the same for a pod.
func (tx *Tx) reindexPod(before, after *Pod) {
	tx.reindex(podAddrs(before), podAddrs(after), move{owner: podKey(before, after), pod: true})
}

// reindex notes the addresses that came and those that went. They are entered
// in the end: thousands of services may have one address, and each entry copies
// its list of owners.
func (tx *Tx) reindex(before, after []netip.Addr, m move) {
	for _, a := range before {
		if _, stays := slices.BinarySearchFunc(after, a, netip.Addr.Compare); !stays {
			tx.moves[a] = append(tx.moves[a], m)
		}
	}
	m.member = true
	for _, a := range after {
		if _, was := slices.BinarySearchFunc(before, a, netip.Addr.Compare); !was {
			tx.moves[a] = append(tx.moves[a], m)
		}
	}
}

// index returns the address index with all moves entered.
func (tx *Tx) index() AddrMap[*addrOwners] {
	index := tx.before.byAddr
	for _, a := range slices.SortedFunc(maps.Keys(tx.moves), netip.Addr.Compare) { // neighbours share their way
		moves := tx.moves[a]
		var old addrOwners
		if present, ok := index.Get(a); ok {
			old = *present
		}
		owners := &addrOwners{services: moved(old.services, moves, false), pods: moved(old.pods, moves, true)}
		if len(owners.services)+len(owners.pods) == 0 {
			index = index.Delete(a)
		} else {
			index = index.Set(a, owners)
		}
	}
	return index
}

// moved returns the sorted keys after the moves of pods, or of services; the
// input stays as it is.
func moved(keys []Key, moves []move, pods bool) []Key {
	if len(moves) == 1 {
		if moves[0].pod != pods {
			return keys
		}
		return withKey(keys, moves[0].owner, moves[0].member)
	}
	last := make(map[Key]bool, len(moves))
	for _, m := range moves {
		if m.pod == pods {
			last[m.owner] = m.member
		}
	}
	list := slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { _, changed := last[k]; return changed })
	for k, member := range last {
		if member {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, Key.Compare)
	return list
}

// withKey returns the sorted keys with or without k; the input stays as it is.
func withKey(keys []Key, k Key, member bool) []Key {
	at, found := slices.BinarySearchFunc(keys, k, Key.Compare)
	switch {
	case found == member:
		return keys
	case member:
		return slices.Insert(slices.Clone(keys), at, k)
	default:
		return slices.Delete(slices.Clone(keys), at, at+1)
	}
}

// serviceAddrs lists every address of a service, sorted, each once.
func serviceAddrs(s *Service) []netip.Addr {
	if s == nil {
		return nil
	}
	addrs := slices.Concat(s.ClusterIPs, s.ExternalIPs, s.LoadBalancerIPs)
	for _, e := range s.Endpoints {
		addrs = append(addrs, e.Addr)
	}
	return sortedSet(addrs)
}

func podAddrs(p *Pod) []netip.Addr {
	if p == nil {
		return nil
	}
	return sortedSet(slices.Clone(p.Addrs))
}

// sortedSet canonicalises, as [AddrMap] does: two spellings of one address
// would otherwise be entered as one and removed as two.
func sortedSet(addrs []netip.Addr) []netip.Addr {
	for i, a := range addrs {
		addrs[i] = a.Unmap().WithZone("")
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

func serviceKey(a, b *Service) Key {
	if a != nil {
		return a.Key
	}
	return b.Key
}

func podKey(a, b *Pod) Key {
	if a != nil {
		return a.Key
	}
	return b.Key
}
