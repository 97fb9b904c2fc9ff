package nftables

import (
	"encoding/binary"
	"net/netip"

	nft "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// familySets are the sets and maps that one address family needs.
type familySets struct {
	services       *ruleset.Set // address . protocol . port : verdict
	nodePorts      *ruleset.Set // protocol . port : verdict
	nodePortAddrs  *ruleset.Set // addresses on which node ports answer
	endpoints      *ruleset.Set // address . protocol . port . index : endpoint address . port
	localEndpoints *ruleset.Set // the same for the local set
	clusterIPs     *ruleset.Set // addresses whose other ports are refused (F-16)
	hairpin        *ruleset.Set // endpoint . endpoint: those that may run on this node (P-15)
	ports          *ruleset.Set // ports of TCP endpoints (B56)
	ranges         *ruleset.Set // address . protocol . port . source network (P-18)
	affinity       *ruleset.Set // client . address . protocol . port . endpoint's number (P-16)
}

// affinityLimit bounds what clients can make the affinity sets hold. A client
// that comes when they are full is served, but not remembered.
const affinityLimit = 1 << 18

var (
	setsOf  = map[*ruleset.Family]*familySets{ruleset.IPv4: newFamilySets(ruleset.IPv4), ruleset.IPv6: newFamilySets(ruleset.IPv6)}
	allSets = append(setsOf[ruleset.IPv4].all(), setsOf[ruleset.IPv6].all()...)
)

func newFamilySets(f *ruleset.Family) *familySets {
	addr, proto, port, number := f.AddrType, nft.TypeInetProto, nft.TypeInetService, nft.TypeMark
	frontend := []nft.SetDatatype{addr, proto, port}
	verdict := []nft.SetDatatype{nft.TypeVerdict}
	endpoint := []nft.SetDatatype{addr, port}
	with := func(prefix []nft.SetDatatype, more ...nft.SetDatatype) []nft.SetDatatype {
		return append(append([]nft.SetDatatype{}, prefix...), more...)
	}
	return &familySets{
		services:       &ruleset.Set{Name: f.Name + "-services", Family: f, Key: frontend, Data: verdict},
		nodePorts:      &ruleset.Set{Name: f.Name + "-node-ports", Family: f, Key: []nft.SetDatatype{proto, port}, Data: verdict},
		nodePortAddrs:  &ruleset.Set{Name: f.Name + "-node-port-addresses", Family: f, Key: []nft.SetDatatype{addr}},
		endpoints:      &ruleset.Set{Name: f.Name + "-endpoints", Family: f, Key: with(frontend, number), Data: endpoint},
		localEndpoints: &ruleset.Set{Name: f.Name + "-local-endpoints", Family: f, Key: with(frontend, number), Data: endpoint},
		clusterIPs:     &ruleset.Set{Name: f.Name + "-cluster-ips", Family: f, Key: []nft.SetDatatype{addr}},
		hairpin:        &ruleset.Set{Name: f.Name + "-hairpin", Family: f, Key: []nft.SetDatatype{addr, addr}},
		ports:          &ruleset.Set{Name: f.Name + "-endpoint-ports", Family: f, Key: []nft.SetDatatype{port}},
		ranges:         &ruleset.Set{Name: f.Name + "-source-ranges", Family: f, Key: with(frontend, addr), Intervals: true},
		affinity:       &ruleset.Set{Name: f.Name + "-affinity", Family: f, Key: with([]nft.SetDatatype{addr}, with(frontend, number)...), Limit: affinityLimit},
	}
}

func (s *familySets) all() []*ruleset.Set {
	return []*ruleset.Set{
		s.services, s.nodePorts, s.nodePortAddrs, s.endpoints, s.localEndpoints,
		s.clusterIPs, s.hairpin, s.ports, s.ranges, s.affinity,
	}
}

func (s *familySets) endpointsOf(which vip.Set) *ruleset.Set {
	if which == vip.LocalSet {
		return s.localEndpoints
	}
	return s.endpoints
}

var protocolNumbers = [...]byte{discovery.TCP: unix.IPPROTO_TCP, discovery.UDP: unix.IPPROTO_UDP, discovery.SCTP: unix.IPPROTO_SCTP}

func appendProtocol(b []byte, p discovery.Protocol) []byte {
	return ruleset.AppendProtocol(b, protocolNumbers[p])
}

// frontendKey is address . protocol . port; the address of a node port is the
// unspecified one, as in [vip.Frontend].
func frontendKey(f vip.Frontend) []byte {
	b := ruleset.AppendAddr(make([]byte, 0, 64), f.Addr)
	return ruleset.AppendPort(appendProtocol(b, f.Protocol), f.Port)
}

func endpointValue(ap netip.AddrPort) string {
	return string(ruleset.AppendPort(ruleset.AppendAddr(make([]byte, 0, 20), ap.Addr()), ap.Port()))
}

// parseFrontend reads what frontendKey wrote; the key may be longer.
func parseFrontend(f *ruleset.Family, key string) (vip.Frontend, bool) {
	n := f.AddrLen()
	if len(key) < n {
		return vip.Frontend{}, false
	}
	addr, _ := netip.AddrFromSlice([]byte(key[:n]))
	return parseProtocolPort(addr, key[n:])
}

func parseProtocolPort(addr netip.Addr, key string) (vip.Frontend, bool) {
	if len(key) < 8 {
		return vip.Frontend{}, false
	}
	for p, number := range protocolNumbers {
		if key[0] == number {
			port := binary.BigEndian.Uint16([]byte(key[4:6]))
			return vip.Frontend{Addr: addr, Port: port, Protocol: discovery.Protocol(p)}, true
		}
	}
	return vip.Frontend{}, false
}

func parseEndpoint(f *ruleset.Family, value string) (netip.AddrPort, bool) {
	n := f.AddrLen()
	if len(value) != n+4 {
		return netip.AddrPort{}, false
	}
	addr, _ := netip.AddrFromSlice([]byte(value[:n]))
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16([]byte(value[n:n+2]))), true
}
