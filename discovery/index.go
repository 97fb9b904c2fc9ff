package discovery

import (
	"net/netip"
	"slices"
)

// reindexService moves the address index from one version of a service to the
// next; either may be nil.
func (tx *Tx) reindexService(before, after *Service) {
	tx.reindex(serviceAddrs(before), serviceAddrs(after), func(o addrOwners, member bool) addrOwners {
		o.services = withKey(o.services, serviceKey(before, after), member)
		return o
	})
}

// reindexPod does the same for a pod.
func (tx *Tx) reindexPod(before, after *Pod) {
	tx.reindex(podAddrs(before), podAddrs(after), func(o addrOwners, member bool) addrOwners {
		o.pods = withKey(o.pods, podKey(before, after), member)
		return o
	})
}

// reindex enters the addresses that came and removes those that went.
func (tx *Tx) reindex(before, after []netip.Addr, change func(o addrOwners, member bool) addrOwners) {
	apply := func(a netip.Addr, member bool) {
		var owners addrOwners
		if old, ok := tx.byAddr.Get(a); ok {
			owners = *old
		}
		owners = change(owners, member)
		if len(owners.services)+len(owners.pods) == 0 {
			tx.byAddr = tx.byAddr.Delete(a)
			return
		}
		tx.byAddr = tx.byAddr.Set(a, &owners)
	}
	for _, a := range before {
		if _, stays := slices.BinarySearchFunc(after, a, netip.Addr.Compare); !stays {
			apply(a, false)
		}
	}
	for _, a := range after {
		if _, was := slices.BinarySearchFunc(before, a, netip.Addr.Compare); !was {
			apply(a, true)
		}
	}
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
