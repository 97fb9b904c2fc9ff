package endpoints

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// addHints says which zones and nodes should use which endpoints, as the
// service asks for (E-15). Only endpoints that are ready get a hint. Topology
// mode "Auto" goes before trafficDistribution.
func addHints(svc *corev1.Service, groups []*group, nodes map[string]*corev1.Node) {
	if autoTopology(svc) {
		proportionalHints(readyEndpoints(groups), zoneShares(nodes))
		return
	}
	var byNode bool
	switch value(svc.Spec.TrafficDistribution) {
	case corev1.ServiceTrafficDistributionPreferSameNode:
		byNode = true
	case corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferClose:
	default:
		return
	}
	for _, ep := range readyEndpoints(groups) {
		ep.Hints = placeHints(ep, byNode)
	}
}

func autoTopology(svc *corev1.Service) bool {
	mode, ok := svc.Annotations[corev1.AnnotationTopologyMode]
	if !ok {
		mode = svc.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	}
	return strings.EqualFold(mode, "auto")
}

func readyEndpoints(groups []*group) []*discoveryv1.Endpoint {
	var out []*discoveryv1.Endpoint
	for _, g := range groups {
		for i := range g.endpoints {
			if ep := &g.endpoints[i]; value(ep.Conditions.Ready) {
				out = append(out, ep)
			}
		}
	}
	return out
}

// placeHints point at the place where the endpoint is.
func placeHints(ep *discoveryv1.Endpoint, byNode bool) *discoveryv1.EndpointHints {
	var hints discoveryv1.EndpointHints
	if zone := value(ep.Zone); zone != "" {
		hints.ForZones = []discoveryv1.ForZone{{Name: zone}}
	}
	if node := value(ep.NodeName); byNode && node != "" {
		hints.ForNodes = []discoveryv1.ForNode{{Name: node}}
	}
	if hints.ForZones == nil && hints.ForNodes == nil {
		return nil
	}
	return &hints
}
