package ipvs

import (
	"net/netip"
	"slices"

	nft "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// familySets are the sets and maps that one address family needs. A frontend
// is address . protocol . port.
type familySets struct {
	from       [len(vip.Sources)]*ruleset.Set // frontend : what to do with a packet from there
	marks      *ruleset.Set                   // frontend . source : mark of the IPVS server for that source
	restricted *ruleset.Set                   // frontends with source ranges (P-18)
	ranges     *ruleset.Set                   // frontend . source network
	captured   *ruleset.Set                   // frontends whose address is not this node's (F-07)
	clusterIPs *ruleset.Set                   // addresses whose other ports are refused (F-16, I-06)
	hairpin    *ruleset.Set                   // endpoint . endpoint: those that may run on this node (P-15)
	ports      *ruleset.Set                   // ports of TCP endpoints (B56)
	owned      *ruleset.Set                   // frontends of the IPVS servers that are ours (I-08)
}

var (
	setsOf  = map[*ruleset.Family]*familySets{ruleset.IPv4: newFamilySets(ruleset.IPv4), ruleset.IPv6: newFamilySets(ruleset.IPv6)}
	allSets = slices.Concat(setsOf[ruleset.IPv4].all(), setsOf[ruleset.IPv6].all())
)

func newFamilySets(f *ruleset.Family) *familySets {
	address := f.AddrType
	frontend := []nft.SetDatatype{address, nft.TypeInetProto, nft.TypeInetService}
	plus := func(last nft.SetDatatype) []nft.SetDatatype { return append(slices.Clone(frontend), last) }
	s := &familySets{
		marks:      &ruleset.Set{Name: f.Name + "-marks", Key: plus(nft.TypeMark), Data: []nft.SetDatatype{nft.TypeMark}},
		restricted: &ruleset.Set{Name: f.Name + "-restricted", Key: frontend},
		ranges:     &ruleset.Set{Name: f.Name + "-source-ranges", Key: plus(address), Intervals: true},
		captured:   &ruleset.Set{Name: f.Name + "-captured", Key: frontend},
		clusterIPs: &ruleset.Set{Name: f.Name + "-cluster-ips", Key: []nft.SetDatatype{address}},
		hairpin:    &ruleset.Set{Name: f.Name + "-hairpin", Key: []nft.SetDatatype{address, address}},
		ports:      &ruleset.Set{Name: f.Name + "-endpoint-ports", Key: []nft.SetDatatype{nft.TypeInetService}},
		owned:      &ruleset.Set{Name: f.Name + "-owned", Key: frontend},
	}
	for source := range s.from {
		s.from[source] = &ruleset.Set{
			Name: f.Name + "-from-" + vip.Source(source).String(), Key: frontend, Data: []nft.SetDatatype{nft.TypeVerdict},
		}
	}
	return s
}

func (s *familySets) all() []*ruleset.Set {
	return append(s.from[:], s.marks, s.restricted, s.ranges, s.captured, s.clusterIPs, s.hairpin, s.ports, s.owned)
}

// gate reports whether the set decides who reaches a server, as opposed to
// saying something about it.
func (s *familySets) gate(set *ruleset.Set) bool {
	return set == s.captured || slices.Contains(s.from[:], set)
}

var protocolNumbers = [...]byte{discovery.TCP: unix.IPPROTO_TCP, discovery.UDP: unix.IPPROTO_UDP, discovery.SCTP: unix.IPPROTO_SCTP}

func frontendKey(f vip.Frontend) []byte {
	b := ruleset.AppendAddr(make([]byte, 0, 64), f.Addr)
	return ruleset.AppendPort(ruleset.AppendProtocol(b, protocolNumbers[f.Protocol]), f.Port)
}

func addressKey(a netip.Addr) string { return string(a.AsSlice()) }

func familyOf(f vip.Frontend) *ruleset.Family { return ruleset.FamilyOf(f.Is6()) }
