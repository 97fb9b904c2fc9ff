//nolint:staticcheck // the deprecated Endpoints are what this file is about (E-21)
package endpoints

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// MirrorManagedBy is the value of the label endpointslice.kubernetes.io/managed-by
	// on slices that mirror a hand-written Endpoints object.
	MirrorManagedBy = "endpointslicemirroring-controller.k8s.io"

	// leaderAnnotation marks Endpoints that are the lock of a leader election.
	leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"

	// mirroredPerSubset is the most addresses of a subset that are mirrored,
	// and the most endpoints of a slice (E-17).
	mirroredPerSubset = 1000
)

// Mirror computes the slices of a service without a selector from hand-written
// Endpoints of the same name: one for each set of ports and address family
// (E-17). It returns nil if the Endpoints are not to be mirrored: there is no
// such service or it has a selector or is an alias, or they carry the label
// endpointslice.kubernetes.io/skip-mirror or are the lock of a leader election.
// Endpoints without any usable address give an empty result that is not nil.
//
// Slices that the endpoints controller left behind when the service lost its
// selector are taken over (E-22).
func Mirror(svc *corev1.Service, eps *corev1.Endpoints, existing []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	if !mirrored(svc, eps) {
		return nil
	}
	annotations := maps.Clone(eps.Annotations)
	delete(annotations, corev1.EndpointsLastChangeTriggerTime)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	w := writer{
		namespace: svc.Namespace, service: svc.Name, annotations: annotations, max: mirroredPerSubset,
		owner:  *metav1.NewControllerRef(eps, schema.GroupVersionKind{Version: "v1", Kind: "Endpoints"}),
		labels: ownLabels(eps.Labels, svc.Name, MirrorManagedBy),
	}
	w.adopt(existing, MirrorManagedBy, ManagedBy)
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		w.write(family, groupSubsets(eps, family))
	}
	return w.finish()
}

func mirrored(svc *corev1.Service, eps *corev1.Endpoints) bool {
	if svc == nil || eps == nil || svc.Spec.Selector != nil || svc.Spec.Type == corev1.ServiceTypeExternalName ||
		svc.Namespace != eps.Namespace || svc.Name != eps.Name {
		return false
	}
	_, lock := eps.Annotations[leaderAnnotation]
	return !lock && eps.Labels[discoveryv1.LabelSkipMirror] != "true"
}

// groupSubsets makes the endpoints of one family out of the subsets; subsets
// with equal ports become one group.
func groupSubsets(eps *corev1.Endpoints, family discoveryv1.AddressType) []*group {
	byKey := map[string]*group{}
	for i := range eps.Subsets {
		subset := &eps.Subsets[i]
		ready, notReady := limit(subset)
		add := func(addresses []corev1.EndpointAddress, ready bool) {
			for i := range addresses {
				if ep, ok := mirroredEndpoint(&addresses[i], family, ready); ok {
					g := groupFor(byKey, subsetPorts(subset))
					g.endpoints = append(g.endpoints, ep)
				}
			}
		}
		add(ready, true)
		add(notReady, false)
	}
	for _, g := range byKey {
		readyWins(g)
	}
	return sortedGroups(byKey)
}

// limit cuts a subset down to its limit; ready addresses go first.
func limit(subset *corev1.EndpointSubset) (ready, notReady []corev1.EndpointAddress) {
	ready = subset.Addresses[:min(len(subset.Addresses), mirroredPerSubset)]
	notReady = subset.NotReadyAddresses[:min(len(subset.NotReadyAddresses), mirroredPerSubset-len(ready))]
	return ready, notReady
}

// readyWins drops endpoints that are not ready where the same address is ready
// on the same ports (E-04, B74).
func readyWins(g *group) {
	isReady := map[string]bool{}
	for _, ep := range g.endpoints {
		if *ep.Conditions.Ready {
			isReady[ep.Addresses[0]] = true
		}
	}
	g.endpoints = slices.DeleteFunc(g.endpoints, func(ep discoveryv1.Endpoint) bool {
		return !*ep.Conditions.Ready && isReady[ep.Addresses[0]]
	})
}

func subsetPorts(subset *corev1.EndpointSubset) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for _, p := range subset.Ports {
		port := discoveryv1.EndpointPort{Name: new(p.Name), Protocol: new(protocolOr(p.Protocol)), Port: new(p.Port)}
		if p.AppProtocol != nil {
			port.AppProtocol = new(*p.AppProtocol)
		}
		ports = append(ports, port)
	}
	return ports
}

func mirroredEndpoint(from *corev1.EndpointAddress, family discoveryv1.AddressType, ready bool) (discoveryv1.Endpoint, bool) {
	addr, ok := parseAddr(from.IP)
	if !ok || familyOf(addr) != family {
		return discoveryv1.Endpoint{}, false
	}
	ep := discoveryv1.Endpoint{
		Addresses: []string{addr.String()},
		Conditions: discoveryv1.EndpointConditions{
			Ready: new(ready), Serving: new(ready), Terminating: new(false),
		},
		TargetRef: from.TargetRef.DeepCopy(),
	}
	if from.Hostname != "" {
		ep.Hostname = new(from.Hostname)
	}
	if from.NodeName != nil {
		ep.NodeName = new(*from.NodeName)
	}
	return ep, true
}
