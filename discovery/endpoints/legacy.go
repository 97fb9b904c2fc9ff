//nolint:staticcheck // the deprecated Endpoints are what this file is about (E-21)
package endpoints

import (
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

const (
	maxAddresses = 1000 // of a whole Endpoints object (E-13)
	truncated    = "truncated"
)

// Endpoints computes the legacy Endpoints object of a service with a selector,
// in the service's primary family (E-11). It returns nil for a service without
// a selector and for an ExternalName service. Pods that terminate are left out
// unless the service publishes pods that are not ready (E-02); an object with
// more than 1000 addresses is cut down to them (E-13).
func Endpoints(svc *corev1.Service, pods []*corev1.Pod) *corev1.Endpoints {
	if !managed(svc) {
		return nil
	}
	out := &corev1.Endpoints{}
	out.Namespace, out.Name = svc.Namespace, svc.Name
	out.Labels = maps.Clone(svc.Labels)
	delete(out.Labels, corev1.IsHeadlessService)
	if headless(svc) {
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels[corev1.IsHeadlessService] = ""
	}
	for _, g := range legacyGroups(svc, pods) {
		out.Subsets = append(out.Subsets, subsetOf(g))
	}
	if truncate(out.Subsets) {
		out.Annotations = map[string]string{corev1.EndpointsOverCapacity: truncated}
	}
	return out
}

// legacyGroups are the groups of the primary family without what the old
// object has no room for: pods that terminate, and pods none of whose ports
// are known (E-06).
func legacyGroups(svc *corev1.Service, pods []*corev1.Pod) []*group {
	var keep []*corev1.Pod
	for _, pod := range selected(svc, pods) {
		if terminating(pod) && !svc.Spec.PublishNotReadyAddresses {
			continue
		}
		if ports, missing := resolvePorts(svc, pod); len(ports) == 0 && len(missing) > 0 {
			continue
		}
		keep = append(keep, pod)
	}
	groups := groupPods(svc, keep, nil, families(svc)[0])
	for _, g := range groups {
		readyWins(g)
	}
	return groups
}

func subsetOf(g *group) corev1.EndpointSubset {
	var subset corev1.EndpointSubset
	for _, p := range g.ports {
		subset.Ports = append(subset.Ports, corev1.EndpointPort{
			Name: *p.Name, Port: *p.Port, Protocol: *p.Protocol, AppProtocol: p.AppProtocol,
		})
	}
	for i := range g.endpoints {
		ep := &g.endpoints[i]
		if *ep.Conditions.Ready {
			subset.Addresses = append(subset.Addresses, legacyAddress(ep))
		} else {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, legacyAddress(ep))
		}
	}
	return subset
}

func legacyAddress(ep *discoveryv1.Endpoint) corev1.EndpointAddress {
	return corev1.EndpointAddress{
		IP: ep.Addresses[0], Hostname: value(ep.Hostname), NodeName: ep.NodeName, TargetRef: ep.TargetRef,
	}
}

// truncate cuts subsets down to 1000 addresses in all, and reports whether it
// had to: those that are ready go first, and each subset keeps its share.
func truncate(subsets []corev1.EndpointSubset) bool {
	ready, notReady := 0, 0
	for i := range subsets {
		ready += len(subsets[i].Addresses)
		notReady += len(subsets[i].NotReadyAddresses)
	}
	if ready+notReady <= maxAddresses {
		return false
	}
	forReady := newShare(min(ready, maxAddresses), ready)
	forRest := newShare(maxAddresses-forReady.left, notReady)
	for i := range subsets {
		s := &subsets[i]
		s.Addresses = s.Addresses[:forReady.of(len(s.Addresses))]
		s.NotReadyAddresses = s.NotReadyAddresses[:forRest.of(len(s.NotReadyAddresses))]
	}
	return true
}

// share deals a limit out in proportion to what each asks for, rounding up as
// long as there is any left.
type share struct {
	part float64
	left int
}

func newShare(limit, total int) share {
	return share{part: float64(limit) / float64(max(total, 1)), left: limit}
}

func (s *share) of(n int) int {
	n = min(int(math.Ceil(float64(n)*s.part)), s.left, n)
	s.left -= n
	return n
}
