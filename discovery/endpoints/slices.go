package endpoints

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

const (
	// ManagedBy is the value of the label endpointslice.kubernetes.io/managed-by
	// on the slices of services with a selector.
	ManagedBy = "endpointslice-controller.k8s.io"

	defaultMaxPerSlice = 100
)

// Options are the endpoints controller's settings. The zero value is ready to use.
type Options struct {
	// MaxPerSlice is the most endpoints that a slice holds; 0 means 100 (E-09).
	MaxPerSlice int
	// RequireNode leaves out pods whose node is not among the nodes, unless the
	// service publishes pods that are not ready (E-08). In a folder of manifests
	// there may be no Node objects at all.
	RequireNode bool
}

// Slices computes the EndpointSlices of a service with a selector: one or more
// for each address family and each set of ports that its pods resolve, and an
// empty one for a family without endpoints. It returns nil for a service
// without a selector and for an ExternalName service (E-01).
//
// The pods are those of the service's namespace; the selector is applied here.
// The nodes are by name and may be missing. Existing slices of the service are
// reused with as few changes as can be; it may be nil. A slice of the result
// that did not change is the same pointer as in existing.
func (o Options) Slices(
	svc *corev1.Service, pods []*corev1.Pod, nodes map[string]*corev1.Node, existing []*discoveryv1.EndpointSlice,
) []*discoveryv1.EndpointSlice {
	if !managed(svc) {
		return nil
	}
	candidates := o.withNodes(svc, selected(svc, pods), nodes)
	w := writer{
		namespace: svc.Namespace, service: svc.Name, owner: serviceOwner(svc), labels: sliceLabels(svc),
		max: cmp.Or(max(o.MaxPerSlice, 0), defaultMaxPerSlice), placeholder: true,
		triggers: triggerTimes(svc, candidates),
	}
	w.adopt(existing, ManagedBy)
	for _, family := range families(svc) {
		groups := groupPods(svc, candidates, nodes, family)
		addHints(svc, groups, nodes)
		w.write(family, groups)
	}
	return w.finish()
}

func (o Options) withNodes(svc *corev1.Service, pods []*corev1.Pod, nodes map[string]*corev1.Node) []*corev1.Pod {
	if !o.RequireNode || svc.Spec.PublishNotReadyAddresses {
		return pods
	}
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return nodes[p.Spec.NodeName] == nil })
}

// group is the endpoints of one family that share their ports, by address.
type group struct {
	key       string
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

// groupPods makes the endpoints of one family, grouped by resolved ports.
func groupPods(
	svc *corev1.Service, pods []*corev1.Pod, nodes map[string]*corev1.Node, family discoveryv1.AddressType,
) []*group {
	byKey := map[string]*group{}
	for _, pod := range pods {
		addr, ok := podAddr(pod, family)
		if !ok {
			continue
		}
		ports, _ := resolvePorts(svc, pod)
		g := groupFor(byKey, ports)
		g.endpoints = append(g.endpoints, podEndpoint(svc, pod, nodes[pod.Spec.NodeName], addr))
	}
	return sortedGroups(byKey)
}

func groupFor(byKey map[string]*group, ports []discoveryv1.EndpointPort) *group {
	key := portsKey(ports)
	g := byKey[key]
	if g == nil {
		g = &group{key: key, ports: ports}
		byKey[key] = g
	}
	return g
}

// sortedGroups puts groups and endpoints in order and drops endpoints that are
// there twice. Two pods with one address are two endpoints (E-20, B70).
func sortedGroups(byKey map[string]*group) []*group {
	groups := make([]*group, 0, len(byKey))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		g := byKey[key]
		g.endpoints = sortedEndpoints(g.endpoints)
		groups = append(groups, g)
	}
	return groups
}

func podEndpoint(svc *corev1.Service, pod *corev1.Pod, node *corev1.Node, addr netip.Addr) discoveryv1.Endpoint {
	serving, leaving := ready(pod), terminating(pod)
	ep := discoveryv1.Endpoint{
		Addresses: []string{addr.String()},
		Conditions: discoveryv1.EndpointConditions{ // E-03
			Ready:       new(svc.Spec.PublishNotReadyAddresses || serving && !leaving),
			Serving:     new(serving),
			Terminating: new(leaving),
		},
		TargetRef: podRef(pod),
	}
	if name := hostname(svc, pod); name != "" {
		ep.Hostname = new(name)
	}
	if pod.Spec.NodeName != "" {
		ep.NodeName = new(pod.Spec.NodeName)
	}
	if node != nil && node.Labels[corev1.LabelTopologyZone] != "" {
		ep.Zone = new(node.Labels[corev1.LabelTopologyZone])
	}
	return ep
}

// triggerTimes says, for each pod, since when it could be the endpoint that it
// is: its last change of readiness, but not before the service was there
// (E-12).
func triggerTimes(svc *corev1.Service, pods []*corev1.Pod) map[corev1.ObjectReference]time.Time {
	times := map[corev1.ObjectReference]time.Time{}
	for _, pod := range pods {
		if c := readyCondition(pod); c != nil && !c.LastTransitionTime.IsZero() {
			t := c.LastTransitionTime.Time
			if created := svc.CreationTimestamp.Time; created.After(t) {
				t = created
			}
			times[*podRef(pod)] = t
		}
	}
	return times
}
