package convert

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"signpost/discovery"
)

// Join returns a service with the slices given in place of its own, as
// [Service] would make it: without those of a family in which it has no
// cluster IP (X23), and without any for an ExternalName service (E-01). It is
// for sources that learn of a Service and its slices one by one. Neither the
// service nor the slices are changed; the result shares them.
func Join(s *discovery.Service, slices []*discovery.Slice) *discovery.Service {
	made := *s
	made.Slices = nil
	if s.Kind == discovery.ExternalName {
		return &made
	}
	for _, slice := range slices {
		if len(slice.Endpoints) > 0 && !wantsFamily(s.ClusterIPs, discoveryv1.AddressType(familyOf(slice.Endpoints[0].Addr))) {
			continue
		}
		made.Slices = append(made.Slices, slice)
	}
	return &made
}
