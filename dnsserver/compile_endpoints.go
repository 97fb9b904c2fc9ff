package dnsserver

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

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
// that point at them: all, and by port name.
func (a *answers) compileEndpoints(drafts []draft) (all []target, ports []portName) {
	var named []namedTarget
	addrs := make([]byte, 0, addrOctets(drafts))
	var bounds []int // where each endpoint's records start in all
	for len(drafts) > 0 {
		group := sameLabel(drafts)
		drafts = drafts[len(group):]
		bounds = append(bounds, len(all))
		index := int32(len(a.endpoints))
		start := len(addrs)
		e := endpoint{label: group[0].label, hostname: slices.ContainsFunc(group, func(d draft) bool { return d.hostname })}
		addrs, e.v4len = appendGroup(addrs, group)
		e.addrs = addrs[start:len(addrs):len(addrs)]
		a.endpoints = append(a.endpoints, e)
		all, named = appendTargets(all, named, index, group)
	}
	all, a.endpoints = slices.Clip(all), slices.Clip(a.endpoints)
	for i, start := range bounds {
		end := len(all)
		if i+1 < len(bounds) {
			end = bounds[i+1]
		}
		a.endpoints[i].srv = all[start:end:end]
	}
	return all, groupByPort(named)
}

// addrOctets is how much room the addresses of the drafts need at most.
func addrOctets(drafts []draft) (n int) {
	for i := range drafts {
		n += drafts[i].addr.BitLen() / 8
	}
	return n
}

// sameLabel returns the drafts at the front that share one name.
func sameLabel(drafts []draft) []draft {
	n := 1
	for n < len(drafts) && drafts[n].label == drafts[0].label {
		n++
	}
	return drafts[:n]
}

// appendGroup appends the addresses of one name, each once: an endpoint may
// stand in two slices while it moves between them (H18).
func appendGroup(addrs []byte, group []draft) (grown []byte, v4len int) {
	for i := range group {
		if i > 0 && group[i].addr == group[i-1].addr {
			continue
		}
		addrs = append(addrs, group[i].addr.AsSlice()...)
		if group[i].addr.Is4() {
			v4len += 4
		}
	}
	return addrs, v4len
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
		if last := len(ports) - 1; last < 0 || ports[last].protocol != n.protocol || ports[last].name != n.name {
			ports = append(ports, portName{protocol: n.protocol, name: n.name, srv: srv[i:i]})
		}
		last := &ports[len(ports)-1]
		last.srv = last.srv[:len(last.srv)+1]
	}
	return slices.Clip(ports)
}

func comparePortNames(a, b portName) int {
	return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.name, b.name))
}
