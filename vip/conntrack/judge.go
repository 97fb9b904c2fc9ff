package conntrack

import (
	"net/netip"
	"slices"

	"signpost/discovery"
	"signpost/vip"
)

// Flow is one UDP entry of the table.
type Flow struct {
	// Destination is where the client sends to, ReplySource who answers. They
	// differ if the address was translated.
	Client, Destination, ReplySource netip.AddrPort
	// raw is what the table needs to find the entry again.
	raw any
}

// judge decides about flows. It is made anew for each pass.
type judge struct {
	state    *vip.State
	snapshot *discovery.Snapshot
	// removed are frontends that are gone since the last pass that succeeded.
	removed map[vip.Frontend]bool
	serving map[vip.Frontend]map[netip.AddrPort]bool
}

func newJudge(state *vip.State, snapshot *discovery.Snapshot, removed map[vip.Frontend]bool) *judge {
	return &judge{state: state, snapshot: snapshot, removed: removed, serving: map[vip.Frontend]map[netip.AddrPort]bool{}}
}

// stale reports whether a flow has to go: it goes to a port of a service, and
// who answers is no serving endpoint of it. That includes the flow that was
// never translated because there was no endpoint at the time. A flow to a port
// that was a service's until now is stale if it was translated.
func (j *judge) stale(f Flow) bool {
	for _, frontend := range j.frontends(f.Destination) {
		if v := j.state.Get(frontend); v != nil {
			return !j.endpoints(v)[f.ReplySource]
		}
		if j.removed[frontend] {
			return f.ReplySource != f.Destination
		}
	}
	return false
}

// frontends lists the frontends that a destination can mean, the most
// particular first.
func (j *judge) frontends(to netip.AddrPort) []vip.Frontend {
	list := []vip.Frontend{{Addr: to.Addr(), Port: to.Port(), Protocol: discovery.UDP}}
	if slices.Contains(j.state.Node().NodePortAddrs, to.Addr()) {
		list = append(list, vip.NodePortFrontend(to.Addr().Is6(), to.Port(), discovery.UDP))
	}
	return list
}

// endpoints returns all endpoints of a virtual server that still serve, also
// those that get no new connections.
func (j *judge) endpoints(v *vip.VirtualServer) map[netip.AddrPort]bool {
	if known, ok := j.serving[v.Frontend]; ok {
		return known
	}
	set := map[netip.AddrPort]bool{}
	for _, e := range slices.Concat(v.Cluster, v.Local) {
		set[e.AddrPort] = true
	}
	if s, ok := j.snapshot.Services.Get(v.Owner); ok {
		for slice, e := range s.Endpoints {
			if port, found := portOf(slice, v.PortName); found && e.Serving {
				set[netip.AddrPortFrom(e.Addr, port)] = true
			}
		}
	}
	j.serving[v.Frontend] = set
	return set
}

func portOf(s *discovery.Slice, name string) (uint16, bool) {
	for _, p := range s.Ports {
		if p.Name == name && p.Protocol == discovery.UDP {
			return p.Port, true
		}
	}
	return 0, false
}
