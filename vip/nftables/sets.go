package nftables

import (
	"encoding/binary"
	"net/netip"

	nft "github.com/google/nftables"

	"signpost/discovery"
	"signpost/vip"
)

// set is one named set or map of the table. Keys and values are handled as the
// bytes that stand in the kernel's registers, in strings, so that they can be
// compared and be keys of Go maps.
type set struct {
	name      string
	family    *family
	key       []nft.SetDatatype
	data      []nft.SetDatatype // nil: a set; one TypeVerdict: a verdict map
	intervals bool              // the last part of a key is a range
	dynamic   bool              // filled by packets, with timeouts; never by signpost
	shared    bool              // an element can belong to several virtual servers
}

// familySets are the sets and maps that one address family needs.
type familySets struct {
	services       *set // address . protocol . port : verdict
	nodePorts      *set // protocol . port : verdict
	nodePortAddrs  *set // addresses on which node ports answer
	endpoints      *set // address . protocol . port . index : endpoint address . port
	localEndpoints *set // the same for the local set
	clusterIPs     *set // addresses whose other ports are refused (F-16)
	hairpin        *set // endpoint . endpoint: those that may run on this node (P-15)
	ranges         *set // address . protocol . port . source network (P-18)
	affinity       *set // client . address . protocol . port . endpoint's number (P-16)
}

// affinityLimit bounds what clients can make the affinity sets hold. A client
// that comes when they are full is served, but not remembered.
const affinityLimit = 1 << 18

var (
	setsOf  = map[*family]*familySets{ip4: newFamilySets(ip4), ip6: newFamilySets(ip6)}
	allSets = append(setsOf[ip4].all(), setsOf[ip6].all()...)
)

func newFamilySets(f *family) *familySets {
	addr, proto, port, number := f.addrType, nft.TypeInetProto, nft.TypeInetService, nft.TypeMark
	frontend := []nft.SetDatatype{addr, proto, port}
	verdict := []nft.SetDatatype{nft.TypeVerdict}
	endpoint := []nft.SetDatatype{addr, port}
	with := func(prefix []nft.SetDatatype, more ...nft.SetDatatype) []nft.SetDatatype {
		return append(append([]nft.SetDatatype{}, prefix...), more...)
	}
	return &familySets{
		services:       &set{name: f.name + "-services", family: f, key: frontend, data: verdict},
		nodePorts:      &set{name: f.name + "-node-ports", family: f, key: []nft.SetDatatype{proto, port}, data: verdict},
		nodePortAddrs:  &set{name: f.name + "-node-port-addresses", family: f, key: []nft.SetDatatype{addr}},
		endpoints:      &set{name: f.name + "-endpoints", family: f, key: with(frontend, number), data: endpoint},
		localEndpoints: &set{name: f.name + "-local-endpoints", family: f, key: with(frontend, number), data: endpoint},
		clusterIPs:     &set{name: f.name + "-cluster-ips", family: f, key: []nft.SetDatatype{addr}, shared: true},
		hairpin:        &set{name: f.name + "-hairpin", family: f, key: []nft.SetDatatype{addr, addr}, shared: true},
		ranges:         &set{name: f.name + "-source-ranges", family: f, key: with(frontend, addr), intervals: true},
		affinity:       &set{name: f.name + "-affinity", family: f, key: with([]nft.SetDatatype{addr}, with(frontend, number)...), dynamic: true},
	}
}

func (s *familySets) all() []*set {
	return []*set{
		s.services, s.nodePorts, s.nodePortAddrs, s.endpoints, s.localEndpoints,
		s.clusterIPs, s.hairpin, s.ranges, s.affinity,
	}
}

func (s *familySets) endpointsOf(which vip.Set) *set {
	if which == vip.LocalSet {
		return s.localEndpoints
	}
	return s.endpoints
}

// The encoders below append one part, padded to a whole register.

func appendAddr(b []byte, a netip.Addr) []byte { return append(b, a.AsSlice()...) }

func appendProtocol(b []byte, p discovery.Protocol) []byte {
	return append(b, protocolNumbers[p], 0, 0, 0)
}

func appendPort(b []byte, port uint16) []byte {
	return append(binary.BigEndian.AppendUint16(b, port), 0, 0)
}

func appendNumber(b []byte, n uint32) []byte { return binary.NativeEndian.AppendUint32(b, n) }

// frontendKey is address . protocol . port; the address of a node port is the
// unspecified one, as in [vip.Frontend].
func frontendKey(f vip.Frontend) []byte {
	b := appendAddr(make([]byte, 0, 64), f.Addr)
	return appendPort(appendProtocol(b, f.Protocol), f.Port)
}

func endpointValue(ap netip.AddrPort) string {
	return string(appendPort(appendAddr(make([]byte, 0, 20), ap.Addr()), ap.Port()))
}

// parseFrontend reads what frontendKey wrote; the key may be longer.
func (f *family) parseFrontend(key string) (vip.Frontend, bool) {
	n := int(f.addrLen)
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

func (f *family) parseEndpoint(value string) (netip.AddrPort, bool) {
	n := int(f.addrLen)
	if len(value) != n+4 {
		return netip.AddrPort{}, false
	}
	addr, _ := netip.AddrFromSlice([]byte(value[:n]))
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16([]byte(value[n:n+2]))), true
}

// interval returns the first and the last key of a prefix under a key prefix.
// The kernel takes both ends of a concatenated range as inclusive.
func interval(key []byte, p netip.Prefix) (first, last string) {
	low := p.Masked().Addr()
	high := low.AsSlice()
	for bit := p.Bits(); bit < len(high)*8; bit++ {
		high[bit/8] |= 0x80 >> (bit % 8)
	}
	head := string(key)
	return head + string(low.AsSlice()), head + string(high)
}
