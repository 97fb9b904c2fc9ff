package discovery

import "net/netip"

// Snapshot is the world at one revision. It is immutable.
type Snapshot struct {
	// Revision counts the changes of the store that published the snapshot;
	// the empty snapshot that a store begins with has revision 0.
	Revision uint64
	// Synced is true once the source has delivered everything at least once.
	// Before it, a missing object means "not known", never "not there".
	Synced bool

	Services Map[*Service]
	Pods     Map[*Pod]
	// Nodes by name.
	Nodes map[string]*Node
	// Namespaces that exist as objects. A namespace in which a service lives
	// exists as well: ask [Snapshot.HasNamespace].
	Namespaces map[string]bool
	// NamespaceLabels holds the labels of those namespaces that have any and
	// whose source delivers them.
	NamespaceLabels map[string]map[string]string
	// ServiceCIDRs are the ranges that cluster addresses come from, where the
	// source tells them; sorted, without host bits, each once.
	ServiceCIDRs []netip.Prefix

	// byAddr lists, for each address, the services and pods that it belongs to.
	byAddr AddrMap[*addrOwners]
}

// addrOwners is immutable; its keys are sorted.
type addrOwners struct{ services, pods []Key }

// HasNamespace reports whether a namespace exists: as an object, or because a
// service or a pod lives in it (dns-requirements T11).
func (s *Snapshot) HasNamespace(name string) bool {
	return s.Namespaces[name] || s.Services.HasNamespace(name) || s.Pods.HasNamespace(name)
}

// ServicesAt returns the keys, sorted, of the services that have the address
// as a cluster, external or load-balancer address or as an endpoint. The
// caller must not change the slice.
func (s *Snapshot) ServicesAt(a netip.Addr) []Key {
	if owners, ok := s.byAddr.Get(a); ok {
		return owners.services
	}
	return nil
}

// PodsAt returns the keys, sorted, of the pods that have the address, finished
// and host-network ones included. The caller must not change the slice.
func (s *Snapshot) PodsAt(a netip.Addr) []Key {
	if owners, ok := s.byAddr.Get(a); ok {
		return owners.pods
	}
	return nil
}
