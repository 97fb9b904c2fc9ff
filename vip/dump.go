package vip

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// String returns the whole state as [State.Dump] writes it.
func (s *State) String() string {
	var b strings.Builder
	// A strings.Builder never fails.
	_ = s.Dump(&b)
	return b.String()
}

// Dump writes the state as text: one line a virtual server ([VirtualServer.String])
// in the order of the frontends, then one a health-check node port, then, as
// comments, the conflicts and what planning left out. Equal states have equal text.
func (s *State) Dump(w io.Writer) error {
	out := bufio.NewWriter(w)
	for v := range s.All() {
		fmt.Fprintln(out, v)
	}
	plans := s.sortedPlans()
	for _, p := range plans {
		if h := p.HealthCheck; h.Port != 0 {
			fmt.Fprintf(out, "healthcheck %d %s ready=%d\n", h.Port, p.Owner, h.LocalReady)
		}
	}
	for _, p := range plans {
		for _, v := range p.Servers {
			if winner := s.Get(v.Frontend); winner != v && winner != nil {
				fmt.Fprintf(out, "# %s: %s %s belongs to %s\n", v.Owner, v.Kind, v.Frontend, winner.Owner)
			}
		}
		for _, text := range p.Warnings {
			fmt.Fprintf(out, "# %s: %s\n", p.Owner, text)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the planned state: %w", err)
	}
	return nil
}

func (s *State) sortedPlans() []*ServicePlan {
	list := make([]*ServicePlan, 0, s.services.Len())
	for _, p := range s.services.All() {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *ServicePlan) int { return cmp.Compare(a.Owner.String(), b.Owner.String()) })
	return list
}

// String returns the virtual server as one line:
//
//	10.96.0.1:443/TCP default/kubernetes https ClusterIP cluster=[192.168.6.139:6443] pod:cluster node:cluster+snat outside:cluster+snat
//
// An endpoint on this node has a star behind it. A route with nothing to go to
// shows what happens instead: "outside:drop". An unnamed port is "-".
func (v *VirtualServer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %s", v.Frontend, v.Owner, cmp.Or(v.PortName, "-"), v.Kind)
	writeEndpoints(&b, ClusterSet, v.Cluster)
	writeEndpoints(&b, LocalSet, v.Local)
	for _, source := range Sources {
		fmt.Fprintf(&b, " %s:%s", source, v.routeText(v.Routes[source]))
	}
	if v.Affinity != 0 {
		fmt.Fprintf(&b, " affinity=%s", v.Affinity)
	}
	if v.Restricted {
		fmt.Fprintf(&b, " ranges=%v", v.SourceRanges)
	}
	if v.Scheduler != "" {
		fmt.Fprintf(&b, " scheduler=%s", v.Scheduler)
	}
	return b.String()
}

func writeEndpoints(b *strings.Builder, set Set, list []Endpoint) {
	if len(list) == 0 {
		return
	}
	texts := make([]string, len(list))
	for i, e := range list {
		texts[i] = e.String()
	}
	fmt.Fprintf(b, " %s=[%s]", set, strings.Join(texts, " "))
}

func (v *VirtualServer) routeText(r Route) string {
	switch {
	case len(v.Endpoints(r.Set)) == 0:
		return r.Empty.String()
	case r.SNAT:
		return r.Set.String() + "+snat"
	default:
		return r.Set.String()
	}
}

// String returns address and port, and a star if the endpoint is on this node.
func (e Endpoint) String() string {
	if e.Local {
		return e.AddrPort.String() + "*"
	}
	return e.AddrPort.String()
}
