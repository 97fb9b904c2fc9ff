package dnsserver

import (
	"cmp"
	"net/netip"
	"slices"

	"signpost/discovery"
)

// pointer is one PTR record: an address and its entry for a [pointerList].
type pointer struct {
	addr  netip.Addr
	entry pointerList
}

func comparePointers(a, b pointer) int {
	return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.entry, b.entry))
}

// pointers lists the PTR records of a service, sorted: of the virtual
// addresses (R1) and of the endpoints (R2, R4), but not of a name that is only
// an alias. A nil service has none.
func (a *answers) pointers() []pointer {
	if a == nil || a.kind == discovery.ExternalName {
		return nil
	}
	var list []pointer
	add := func(rank byte, label string, v4, v6 []byte) {
		entry := pointerEntry(rank, label, a.key)
		for octets := range slices.Chunk(v4, 4) {
			list = append(list, pointer{addr: netip.AddrFrom4([4]byte(octets)), entry: entry})
		}
		for octets := range slices.Chunk(v6, 16) {
			list = append(list, pointer{addr: netip.AddrFrom16([16]byte(octets)), entry: entry})
		}
	}
	if a.kind == discovery.ClusterIP {
		add(rankService, "", a.v4, a.v6)
	}
	for i := range a.endpoints {
		e := &a.endpoints[i]
		rank := byte(rankDashed)
		if e.hostname {
			rank = rankHostname
		}
		v4, v6 := a.endpointAddrs(e)
		add(rank, e.label, v4, v6)
	}
	slices.SortFunc(list, comparePointers)
	return list
}

// pointerEntry packs the name of a service, or of an endpoint by its label.
func pointerEntry(rank byte, label string, k discovery.Key) pointerList {
	entry := make([]byte, 0, len(label)+len(k.Name)+len(k.Namespace)+10)
	entry = append(entry, rank)
	if label != "" {
		entry = appendLabel(entry, label)
	}
	entry = appendLabel(entry, k.Name)
	entry = appendLabel(entry, k.Namespace)
	entry = appendLabel(entry, "svc")
	return pointerList(append(entry, 0))
}

func appendLabel(wire []byte, label string) []byte {
	return append(append(wire, byte(len(label))), label...)
}

// repoint moves the reverse names from one version of a service to the next;
// either may be nil. The cost in map nodes follows the difference.
func repoint(names discovery.AddrMap[pointerList], before, after *answers) discovery.AddrMap[pointerList] {
	was, now := before.pointers(), after.pointers()
	for len(was) > 0 || len(now) > 0 {
		switch order := comparePointersOrEnd(was, now); {
		case order < 0:
			names = withoutPointer(names, was[0])
			was = was[1:]
		case order > 0:
			names = withPointer(names, now[0])
			now = now[1:]
		default:
			was, now = was[1:], now[1:]
		}
	}
	return names
}

// comparePointersOrEnd compares the heads of two lists; an empty one is past
// everything.
func comparePointersOrEnd(a, b []pointer) int {
	switch {
	case len(b) == 0:
		return -1
	case len(a) == 0:
		return +1
	default:
		return comparePointers(a[0], b[0])
	}
}

func withPointer(names discovery.AddrMap[pointerList], p pointer) discovery.AddrMap[pointerList] {
	list, _ := names.Get(p.addr)
	return names.Set(p.addr, list.with(p.entry))
}

func withoutPointer(names discovery.AddrMap[pointerList], p pointer) discovery.AddrMap[pointerList] {
	list, _ := names.Get(p.addr)
	if list = list.without(p.entry); list == "" {
		return names.Delete(p.addr)
	}
	return names.Set(p.addr, list)
}
