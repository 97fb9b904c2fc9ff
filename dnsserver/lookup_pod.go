package dnsserver

import (
	"net/netip"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// lookupPods answers ADDRESS.NAMESPACE.pod.ZONE and the names above it.
func (v *view) lookupPods(zone *clusterZone, q *queryName, below int, qtype uint16) result {
	if below == 1 {
		return result{outcome: empty} // exists in every mode (T6)
	}
	ns := q.label(below - 2)
	if v.conf.Pods == PodsDisabled || zone.multicluster || below > 3 || !v.namespaceExists(ns) {
		return result{outcome: missing}
	}
	if below == 2 {
		return result{outcome: empty}
	}
	addr, ok := parseDashed(q.label(0))
	if !ok || v.conf.Pods == PodsVerified && !v.conf.podAt(v.snap, addr, ns) {
		return result{outcome: missing}
	}
	return lookupPod(addr, qtype)
}

// lookupPod answers at the name of a pod that exists.
func lookupPod(addr netip.Addr, qtype uint16) result {
	switch {
	case qtype == dns.TypeA && addr.Is4(), qtype == dns.TypeAAAA && addr.Is6():
		return result{outcome: answered, rtype: qtype, addr: addr}
	case qtype == dns.TypeANY:
		return minimal(false)
	default:
		return result{outcome: empty}
	}
}

// podAt reports whether a live pod of the namespace has the address (P3).
// Several host-network pods may share one; any of them will do (P8).
func (c *viewConfig) podAt(snap *discovery.Snapshot, addr netip.Addr, ns []byte) bool {
	for _, k := range snap.PodsAt(addr) {
		if k.Namespace != string(ns) {
			continue
		}
		if pod, ok := snap.Pods.Get(k); ok && c.namesPod(pod) {
			return true
		}
	}
	return false
}
