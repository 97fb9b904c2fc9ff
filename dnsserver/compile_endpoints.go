package dnsserver

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"unique"

	"signpost/discovery"
)

// draft is one ready endpoint on its way into [answers].
type draft struct {
	label    string
	hostname bool
	addr     netip.Addr
	ports    []discovery.EndpointPort
}

// draftEndpoints names the ready endpoints, sorted by name, then by address
// with IPv4 first. Whether one is ready is the source's word alone; serving
// and terminating don't count here.
func draftEndpoints(o compileOptions, s *discovery.Service) []draft {
	var drafts []draft
	for slice, e := range s.Endpoints {
		if !e.Ready || !e.Addr.IsValid() {
			continue
		}
		d := draft{addr: e.Addr.Unmap().WithZone(""), ports: slice.Ports}
		d.label, d.hostname = endpointLabel(o, e, d.addr)
		drafts = append(drafts, d)
	}
	slices.SortFunc(drafts, func(a, b draft) int {
		return cmp.Or(cmp.Compare(a.label, b.label), a.addr.Compare(b.addr))
	})
	return drafts
}

// endpointLabel chooses the endpoint's name: its hostname, its pod's name if
// so configured, its address in dashes. What can't be a label is passed over.
func endpointLabel(o compileOptions, e *discovery.Endpoint, addr netip.Addr) (label string, hostname bool) {
	if isHostLabel(e.Hostname) {
		return strings.ToLower(e.Hostname), true
	}
	if o.endpointPodNames && e.Target.Kind == "Pod" && isHostLabel(e.Target.Name) {
		return strings.ToLower(e.Target.Name), false
	}
	return dashedLabel(addr), false
}

// compileEndpoints fills in the endpoints' names and returns the SRV records
// that point at them by port name; those without regard to names are
// a.targets.
func (a *answers) compileEndpoints(drafts []draft) []portName {
	var named []namedTarget
	for len(drafts) > 0 {
		group := sameLabel(drafts)
		drafts = drafts[len(group):]
		index := int32(len(a.endpoints))
		e := endpoint{label: group[0].label, hostname: slices.ContainsFunc(group, func(d draft) bool { return d.hostname })}
		e.addrsAt = uint32(len(a.addrs))
		v4len := a.appendAddrs(group)
		e.v6At, e.addrsEnd = e.addrsAt+v4len, uint32(len(a.addrs))
		e.srvAt = uint32(len(a.targets))
		a.targets, named = appendTargets(a.targets, named, index, group)
		e.srvEnd = uint32(len(a.targets))
		a.endpoints = append(a.endpoints, e)
	}
	a.endpoints, a.addrs, a.targets = shrink(a.endpoints), shrink(a.addrs), shrink(a.targets)
	return groupByPort(named)
}

// shrink returns the slice in memory of its own size: it will be there for
// long.
func shrink[T any](s []T) []T { return append(make([]T, 0, len(s)), s...) }

// sameLabel returns the drafts at the front that share one name.
func sameLabel(drafts []draft) []draft {
	n := 1
	for n < len(drafts) && drafts[n].label == drafts[0].label {
		n++
	}
	return drafts[:n]
}

// appendAddrs appends the addresses of one name, each once: an endpoint may
// stand in two slices while it moves between them (H18). It returns how many
// octets of them are IPv4.
func (a *answers) appendAddrs(group []draft) (v4len uint32) {
	for i := range group {
		if i > 0 && group[i].addr == group[i-1].addr {
			continue
		}
		a.addrs = append(a.addrs, group[i].addr.AsSlice()...)
		if group[i].addr.Is4() {
			v4len += 4
		}
	}
	return v4len
}

// namedTarget is an SRV record with the port name that it stands under.
type namedTarget struct {
	protocol discovery.Protocol
	name     string
	target   target
}

// appendTargets appends the SRV records that point at one name, each once.
func appendTargets(all []target, named []namedTarget, index int32, group []draft) ([]target, []namedTarget) {
	start := len(all)
	for i := range group {
		for _, p := range group[i].ports {
			if p.Port == 0 {
				continue // "all ports": no number to point at
			}
			t := target{endpoint: index, port: p.Port}
			all = append(all, t)
			if p.Name != "" {
				named = append(named, namedTarget{protocol: p.Protocol, name: strings.ToLower(p.Name), target: t})
			}
		}
	}
	slices.SortFunc(all[start:], compareTargets)
	return append(all[:start], slices.Compact(all[start:])...), named
}

// groupByPort sorts the records under their ports' names.
func groupByPort(named []namedTarget) []portName {
	slices.SortFunc(named, func(a, b namedTarget) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.name, b.name), compareTargets(a.target, b.target))
	})
	named = slices.Compact(named)
	var ports []portName
	srv := make([]target, len(named))
	for i, n := range named {
		srv[i] = n.target
		if i == 0 || named[i-1].protocol != n.protocol || named[i-1].name != n.name {
			ports = append(ports, portName{protocol: n.protocol, name: unique.Make(n.name), srv: srv[i:i]})
		}
		last := &ports[len(ports)-1]
		last.srv = last.srv[:len(last.srv)+1]
	}
	return slices.Clip(ports)
}
