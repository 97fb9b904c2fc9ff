package dnsserver

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// compileOptions are the knobs that change what a service answers to.
type compileOptions struct {
	endpointPodNames   bool // an endpoint without hostname is called after its pod
	noEndpoints        bool // H25
	ignoreEmptyService bool // S4, X15
	literalCNAME       bool // X10
}

// compile works out the names of one service and what they answer. It returns
// nil if the service has no name at all.
func compile(o compileOptions, s *discovery.Service) *answers {
	switch {
	case !isObjectName(s.Key.Name) || !isObjectName(s.Key.Namespace):
		return nil // no query could ask for it
	case s.Kind == discovery.ExternalName:
		return compileAlias(o, s)
	case s.Kind == discovery.Headless:
		return compileHeadless(o, s)
	default:
		return compileClusterIP(o, s)
	}
}

// compileAlias answers with a CNAME, or with the address if someone wrote one
// where a name belongs: as an alias it would resolve to nothing (X10).
func compileAlias(o compileOptions, s *discovery.Service) *answers {
	a := &answers{key: s.Key, kind: s.Kind}
	if addr, err := netip.ParseAddr(s.ExternalName); err == nil && !o.literalCNAME {
		a.v4, a.v6 = packAddrs([]netip.Addr{addr})
		return a
	}
	if alias := dns.Fqdn(s.ExternalName); s.ExternalName != "" && new(queryName).parse(alias) {
		a.alias = alias
	}
	return a
}

// compileHeadless answers with the ready endpoints. Without one there is
// nothing to name, by the specification: not even the service (H3).
func compileHeadless(o compileOptions, s *discovery.Service) *answers {
	if o.noEndpoints {
		return nil
	}
	a := &answers{key: s.Key, kind: s.Kind}
	drafts := draftEndpoints(o, s)
	if len(drafts) == 0 {
		return nil
	}
	a.ports = a.compileEndpoints(drafts)
	a.srv = a.targets
	addrs := make([]netip.Addr, len(drafts))
	for i := range drafts {
		addrs[i] = drafts[i].addr
	}
	a.v4, a.v6 = packAddrs(addrs)
	return a
}

// compileClusterIP answers with the virtual addresses, whatever the endpoints
// (S4). Those have names as well, which their PTR records point at (S16).
func compileClusterIP(o compileOptions, s *discovery.Service) *answers {
	a := &answers{key: s.Key, kind: discovery.ClusterIP}
	drafts := draftEndpoints(o, s)
	if o.ignoreEmptyService && len(drafts) == 0 {
		return nil
	}
	a.v4, a.v6 = packAddrs(slices.Clone(s.ClusterIPs))
	if !o.noEndpoints {
		a.compileEndpoints(drafts)
	}
	a.srv, a.ports = compileOwnPorts(s, len(a.v4)+len(a.v6) > 0)
	return a.together()
}

// small is a service with one address and one port, as most are, with all that
// a query reads of it side by side: the answers of a cluster are more than the
// processor's caches hold, and each place that it has to wait for costs as much
// as finding the answer.
type small struct {
	answers

	oneV4   [net.IPv4len]byte
	oneSRV  [1]target
	onePort [1]portName
}

// together moves a service into one piece of memory if it fits.
func (a *answers) together() *answers {
	if len(a.v4) > net.IPv4len || len(a.v6) > 0 || len(a.srv) > 1 || len(a.ports) > 1 {
		return a
	}
	s := &small{answers: *a}
	s.v4 = s.oneV4[:copy(s.oneV4[:], a.v4)]
	s.srv = s.oneSRV[:copy(s.oneSRV[:], a.srv)]
	s.ports = s.onePort[:copy(s.onePort[:], a.ports)]
	for i := range s.ports {
		if slices.Equal(s.ports[i].srv, s.srv) {
			s.ports[i].srv = s.srv
		}
	}
	return &s.answers
}

// compileOwnPorts makes the SRV records that point at the service itself. With
// no address to point at (S18) the ports' names exist and are empty.
func compileOwnPorts(s *discovery.Service, hasAddr bool) (srv []target, ports []portName) {
	var named []namedTarget
	for _, p := range s.Ports {
		record := target{endpoint: itself, port: p.Port}
		srv = append(srv, record)
		if p.Name != "" {
			named = append(named, namedTarget{protocol: p.Protocol, name: strings.ToLower(p.Name), target: record})
		}
	}
	ports = groupByPort(named)
	if hasAddr {
		return sortedTargets(srv), ports
	}
	for i := range ports {
		ports[i].srv = nil
	}
	return nil, ports
}

// sortedTargets sorts records and leaves each once (G9).
func sortedTargets(srv []target) []target {
	slices.SortFunc(srv, compareTargets)
	return slices.Clip(slices.Compact(srv))
}

// packAddrs sorts addresses, leaves each once and writes them as the octets of
// A and AAAA records. Sorted, so that the order in which slices are delivered
// is no difference.
func packAddrs(addrs []netip.Addr) (v4, v6 []byte) {
	slices.SortFunc(addrs, netip.Addr.Compare)
	for _, a := range slices.Compact(addrs) {
		switch {
		case a.Is4():
			v4 = append(v4, a.AsSlice()...)
		case a.Is6():
			v6 = append(v6, a.AsSlice()...)
		}
	}
	return slices.Clip(v4), slices.Clip(v6)
}
