package dnsserver

import (
	"cmp"
	"slices"
	"sort"
	"unique"

	"signpost/discovery"
)

// answers is everything that DNS knows about one service: the result of
// [compile]. It is immutable, and it depends neither on the zone nor on the
// TTL: names are kept relative to the service, addresses as the octets of
// their records. A reply is put together from it by copying.
type answers struct {
	key  discovery.Key
	kind discovery.Kind

	// At the service's own name.
	v4, v6 []byte   // addresses, 4 and 16 octets each, sorted
	alias  string   // what the name is an alias of, fully qualified; empty: no alias
	srv    []target // S13, H12

	ports     []portName // names like _http._tcp, sorted by protocol, then name
	endpoints []endpoint // names like web-0, sorted by label
	addrs     []byte     // addresses of the endpoints
	targets   []target   // SRV records at the endpoints' own names (H15)
}

// portName is a name of the form _name._protocol under the service.
type portName struct {
	protocol discovery.Protocol
	// name is in lower case, and in the same memory for all services that have
	// it: there are few, so the processor has it at hand.
	name unique.Handle[string]
	srv  []target
}

// endpoint is one name under the service that stands for endpoints: a
// hostname, which several addresses may share, or an address in dashes. Most
// of a big cluster's answers are these, so it holds no slices but bounds in
// those of the service.
type endpoint struct {
	label    string // lower case
	hostname bool   // the label is a hostname that someone chose (R3)

	addrsAt, v6At, addrsEnd uint32 // in answers.addrs: IPv4, from v6At on IPv6
	srvAt, srvEnd           uint32 // in answers.targets
}

// target is one SRV record: the service itself or one of its endpoints, and a
// port there.
type target struct {
	endpoint int32 // index in answers.endpoints, or itself
	port     uint16
}

// itself, as a target's endpoint, is the service's own name.
const itself = -1

// endpointAddrs returns an endpoint's addresses, as octets.
func (a *answers) endpointAddrs(e *endpoint) (v4, v6 []byte) {
	return a.addrs[e.addrsAt:e.v6At], a.addrs[e.v6At:e.addrsEnd]
}

// endpointSRV returns the SRV records at an endpoint's own name.
func (a *answers) endpointSRV(e *endpoint) []target { return a.targets[e.srvAt:e.srvEnd] }

// targetAddrs returns the addresses of the name that a target points at.
func (a *answers) targetAddrs(t target) (v4, v6 []byte) {
	if t.endpoint == itself {
		return a.v4, a.v6
	}
	return a.endpointAddrs(&a.endpoints[t.endpoint])
}

// endpoint finds the endpoint with a lower-case label.
func (a *answers) endpoint(label []byte) *endpoint {
	at := sort.Search(len(a.endpoints), func(i int) bool { return a.endpoints[i].label >= string(label) })
	if at < len(a.endpoints) && a.endpoints[at].label == string(label) {
		return &a.endpoints[at]
	}
	return nil
}

// endpointByAddr finds the endpoint that a label names in another spelling of
// its address (H8).
func (a *answers) endpointByAddr(label []byte) *endpoint {
	addr, ok := parseDashed(label)
	if !ok || !addr.Is6() {
		return nil
	}
	var buf [maxLabelOctets]byte
	return a.endpoint(appendDashed(buf[:0], addr))
}

// port finds a port's name.
func (a *answers) port(p discovery.Protocol, name []byte) *portName {
	for i := range a.ports {
		if port := &a.ports[i]; port.protocol == p && port.name.Value() == string(name) {
			return port
		}
	}
	return nil
}

// hasProtocol reports whether there is a name under _protocol (S9).
func (a *answers) hasProtocol(p discovery.Protocol) bool {
	for i := range a.ports {
		if a.ports[i].protocol == p {
			return true
		}
	}
	return false
}

// equal reports whether two services have the same answers, whatever else is
// different about them: only a difference here is one that the zone's serial
// counts (G7).
func (a *answers) equal(o *answers) bool {
	if a == o {
		return true
	}
	if a == nil || o == nil {
		return false
	}
	return a.key == o.key && a.kind == o.kind && a.alias == o.alias &&
		slices.Equal(a.v4, o.v4) && slices.Equal(a.v6, o.v6) && slices.Equal(a.srv, o.srv) &&
		slices.EqualFunc(a.ports, o.ports, portName.equal) && slices.Equal(a.endpoints, o.endpoints) &&
		slices.Equal(a.addrs, o.addrs) && slices.Equal(a.targets, o.targets)
}

func (p portName) equal(o portName) bool {
	return p.protocol == o.protocol && p.name == o.name && slices.Equal(p.srv, o.srv)
}

func compareTargets(a, b target) int {
	return cmp.Or(cmp.Compare(a.endpoint, b.endpoint), cmp.Compare(a.port, b.port))
}
