package dnsserver

import (
	"github.com/miekg/dns"

	"signpost/discovery"
)

// lookupServices answers names under svc.ZONE.
func (v *view) lookupServices(zone *clusterZone, q *queryName, below int, qtype uint16) result {
	switch {
	case below == 1:
		return result{outcome: empty}
	case below == 2:
		if v.namespaceExists(q.label(0)) {
			return result{outcome: empty}
		}
		return result{outcome: missing}
	case below > 5 || zone.multicluster:
		return result{outcome: missing}
	}
	a, ok := v.services.GetBytes(q.label(below-2), q.label(below-3))
	if !ok {
		return result{outcome: missing}
	}
	return a.lookup(q, below-3, qtype)
}

// namespaceExists reports whether the zones have a namespace.
func (v *view) namespaceExists(ns []byte) bool {
	if c := v.conf; c.namespaces != nil && !c.namespaces[string(ns)] {
		return false
	}
	return v.snap.HasNamespaceBytes(ns) && (v.conf.NamespaceLabels == nil || v.conf.NamespaceLabels(v.snap.NamespaceLabels[string(ns)]))
}

// lookup answers names at or below the service's own; above is how many
// labels the name has in front of it, 0..2.
func (a *answers) lookup(q *queryName, above int, qtype uint16) result {
	switch {
	case above == 0:
		return a.lookupOwn(qtype)
	case a.alias != "":
		return result{outcome: missing} // X12
	case above == 2:
		return a.lookupPort(q.label(0), q.label(1), qtype)
	case q.label(0)[0] == '_':
		return a.lookupProtocol(q.label(0))
	default:
		return a.lookupEndpoint(q.label(0), qtype)
	}
}

// early reports whether the service's own name and its ports are known as soon
// as the service is. A headless service's come with its endpoints (L3).
func (a *answers) early() bool { return a.kind != discovery.Headless }

func (a *answers) lookupOwn(qtype uint16) result {
	if a.alias != "" {
		return result{outcome: alias, rtype: dns.TypeCNAME, service: a, early: true}
	}
	if qtype == dns.TypeSRV {
		return a.records(a.srv, a.early())
	}
	return lookupAddrs(a.v4, a.v6, qtype, a.early())
}

// records answers SRV.
func (a *answers) records(srv []target, early bool) result {
	if len(srv) == 0 {
		return result{outcome: empty, early: early}
	}
	return result{outcome: answered, rtype: dns.TypeSRV, service: a, srv: srv, early: early}
}

// lookupPort answers _name._protocol (S5, H9): SRV records and nothing else.
func (a *answers) lookupPort(name, protocol []byte, qtype uint16) result {
	p, ok := protocolOf(protocol)
	if !ok || len(name) < 2 || name[0] != '_' {
		return result{outcome: missing}
	}
	port := a.port(p, name[1:])
	switch {
	case port == nil:
		return result{outcome: missing}
	case qtype == dns.TypeSRV:
		return a.records(port.srv, a.early())
	case qtype == dns.TypeANY && len(port.srv) > 0:
		return minimal(a.early())
	default:
		return result{outcome: empty, early: a.early()}
	}
}

// lookupProtocol answers _protocol, which exists only because of the names
// below it (S9).
func (a *answers) lookupProtocol(label []byte) result {
	if p, ok := protocolOf(label); ok && a.hasProtocol(p) {
		return result{outcome: empty, early: a.early()}
	}
	return result{outcome: missing}
}

// lookupEndpoint answers at an endpoint's name (H4, H15, S16).
func (a *answers) lookupEndpoint(label []byte, qtype uint16) result {
	e := a.endpoint(label)
	if e == nil {
		e = a.endpointByAddr(label)
	}
	switch {
	case e == nil:
		return result{outcome: missing}
	case qtype == dns.TypeSRV:
		return a.records(a.endpointSRV(e), false)
	default:
		v4, v6 := a.endpointAddrs(e)
		return lookupAddrs(v4, v6, qtype, false)
	}
}

// protocolOf reads a label like _tcp, in lower case.
func protocolOf(label []byte) (discovery.Protocol, bool) {
	switch string(label) {
	case "_tcp":
		return discovery.TCP, true
	case "_udp":
		return discovery.UDP, true
	case "_sctp":
		return discovery.SCTP, true
	default:
		return 0, false
	}
}
