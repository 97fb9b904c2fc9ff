package admin

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"signpost/discovery"
)

// serviceObject shows a service as the Kubernetes API would.
func serviceObject(s *discovery.Service) *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Key.Namespace, Name: s.Key.Name, UID: types.UID(s.UID),
			CreationTimestamp: metav1.NewTime(s.Created), Labels: s.Labels, Annotations: s.Annotations,
		},
		Spec:   serviceSpec(s),
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: ingress(s.Ingress)}},
	}
}

func serviceSpec(s *discovery.Service) corev1.ServiceSpec {
	spec := corev1.ServiceSpec{
		Type: corev1.ServiceType(s.Type.String()), Ports: servicePorts(s.Ports), Selector: s.Selector,
		ClusterIPs: addrStrings(s.ClusterIPs), ExternalIPs: addrStrings(s.ExternalIPs),
		ExternalName: s.ExternalName, PublishNotReadyAddresses: s.PublishNotReady,
		HealthCheckNodePort: int32(s.HealthCheckNodePort), SessionAffinity: corev1.ServiceAffinityNone,
	}
	if s.Kind == discovery.Headless {
		spec.ClusterIPs = []string{corev1.ClusterIPNone}
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if s.Affinity.ClientIP {
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		seconds := int32(s.Affinity.Timeout.Seconds())
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
	if s.Kind != discovery.ExternalName {
		internal := corev1.ServiceInternalTrafficPolicy(s.InternalPolicy.String())
		spec.InternalTrafficPolicy = &internal
	}
	if s.ExternallyAccessible() {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicy(s.ExternalPolicy.String())
	}
	for _, r := range s.SourceRanges {
		spec.LoadBalancerSourceRanges = append(spec.LoadBalancerSourceRanges, r.String())
	}
	return spec
}

func servicePorts(ports []discovery.Port) []corev1.ServicePort {
	list := make([]corev1.ServicePort, len(ports))
	for i, p := range ports {
		list[i] = corev1.ServicePort{
			Name: p.Name, Protocol: corev1.Protocol(p.Protocol.String()), Port: int32(p.Port),
			NodePort: int32(p.NodePort), TargetPort: intstr.Parse(p.TargetPort),
		}
	}
	return list
}

// ingress tells addresses and host names apart.
func ingress(entries []string) []corev1.LoadBalancerIngress {
	var list []corev1.LoadBalancerIngress
	for _, e := range entries {
		if _, err := netip.ParseAddr(e); err == nil {
			list = append(list, corev1.LoadBalancerIngress{IP: e})
		} else {
			list = append(list, corev1.LoadBalancerIngress{Hostname: e})
		}
	}
	return list
}

// endpointsObject shows a service's endpoints, a subset for each slice.
func endpointsObject(s *discovery.Service) *corev1.Endpoints { //nolint:staticcheck // the kind behind kubectl's "get endpoints"
	object := &corev1.Endpoints{ //nolint:staticcheck // as above
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Key.Namespace, Name: s.Key.Name,
			CreationTimestamp: metav1.NewTime(s.Created), Labels: s.Labels,
		},
	}
	for _, slice := range s.Slices {
		object.Subsets = append(object.Subsets, subset(slice))
	}
	return object
}

func subset(slice *discovery.Slice) corev1.EndpointSubset { //nolint:staticcheck // as above
	var set corev1.EndpointSubset //nolint:staticcheck // as above
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		if e.Ready {
			set.Addresses = append(set.Addresses, endpointAddress(e))
		} else {
			set.NotReadyAddresses = append(set.NotReadyAddresses, endpointAddress(e))
		}
	}
	for _, p := range slice.Ports {
		set.Ports = append(set.Ports, corev1.EndpointPort{ //nolint:staticcheck // as above
			Name: p.Name, Port: int32(p.Port), Protocol: corev1.Protocol(p.Protocol.String()),
		})
	}
	return set
}

func endpointAddress(e *discovery.Endpoint) corev1.EndpointAddress { //nolint:staticcheck // as above
	a := corev1.EndpointAddress{IP: e.Addr.String(), Hostname: e.Hostname} //nolint:staticcheck // as above
	if e.Node != "" {
		a.NodeName = &e.Node
	}
	if t := e.Target; t.Kind != "" {
		a.TargetRef = &corev1.ObjectReference{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name, UID: types.UID(t.UID)}
	}
	return a
}

// podObject shows what is known of a pod. Its containers are not.
func podObject(p *discovery.Pod) *corev1.Pod {
	object := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Key.Namespace, Name: p.Key.Name, UID: types.UID(p.UID),
			CreationTimestamp: metav1.NewTime(p.Created), Labels: p.Labels,
		},
		Spec: corev1.PodSpec{NodeName: p.Node, HostNetwork: p.HostNetwork},
		Status: corev1.PodStatus{
			Phase:      corev1.PodPhase(p.Phase),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: conditionStatus(p.Ready)}},
		},
	}
	if p.Terminating { // when is not known: the API has no other word for it
		object.DeletionTimestamp = &object.CreationTimestamp
	}
	for _, a := range p.Addrs {
		object.Status.PodIPs = append(object.Status.PodIPs, corev1.PodIP{IP: a.String()})
	}
	if len(p.Addrs) > 0 {
		object.Status.PodIP = p.Addrs[0].String()
	}
	return object
}

func conditionStatus(ready bool) corev1.ConditionStatus {
	if ready {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func addrStrings(addrs []netip.Addr) []string {
	var list []string
	for _, a := range addrs {
		list = append(list, a.String())
	}
	return list
}
