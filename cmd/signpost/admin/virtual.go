package admin

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"signpost/vip"
)

// virtualServerObject shows a virtual server as data.
func virtualServerObject(s *vip.VirtualServer) *VirtualServer {
	object := &VirtualServer{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "VirtualServer"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Owner.Namespace, Name: s.Owner.Name, CreationTimestamp: metav1.NewTime(s.Created),
		},
		Frontend: s.Frontend.String(), PortName: s.PortName, VirtualKind: s.Kind.String(),
		Routes:  map[string]Route{},
		Cluster: endpointStrings(s.Cluster), Local: endpointStrings(s.Local),
		Restricted: s.Restricted, Scheduler: s.Scheduler,
	}
	for _, from := range vip.Sources {
		r := s.Routes[from]
		object.Routes[from.String()] = Route{Set: r.Set.String(), SNAT: r.SNAT, Empty: r.Empty.String()}
	}
	if s.Affinity > 0 {
		object.Affinity = s.Affinity.String()
	}
	for _, r := range s.SourceRanges {
		object.SourceRanges = append(object.SourceRanges, r.String())
	}
	return object
}

func endpointStrings(endpoints []vip.Endpoint) []string {
	var list []string
	for _, e := range endpoints {
		list = append(list, e.AddrPort.String())
	}
	return list
}
