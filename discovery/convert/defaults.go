package convert

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func (o Options) defaultService(svc *corev1.Service) {
	spec := &svc.Spec
	setIfEmpty(&spec.Type, corev1.ServiceTypeClusterIP)
	defaultAffinity(spec)
	for i := range spec.Ports {
		p := &spec.Ports[i]
		setIfEmpty(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	defaultPolicies(svc)
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		setIfNil(&spec.AllocateLoadBalancerNodePorts, true)
		points := svc.Status.LoadBalancer.Ingress
		for i := range points {
			if points[i].IP != "" {
				setIfNil(&points[i].IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
	defaultClusterIPs(spec)
	if spec.Type != corev1.ServiceTypeExternalName {
		o.defaultFamilies(spec)
	}
}

func defaultAffinity(spec *corev1.ServiceSpec) {
	setIfEmpty(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch {
	case spec.SessionAffinity == corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case spec.SessionAffinity == corev1.ServiceAffinityClientIP && affinityTimeout(spec) == nil:
		seconds := corev1.DefaultClientIPServiceAffinitySeconds
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds},
		}
	}
}

func defaultPolicies(svc *corev1.Service) {
	if externallyAccessible(svc) {
		setIfEmpty(&svc.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if needsNodePorts(svc.Spec.Type) || svc.Spec.Type == corev1.ServiceTypeClusterIP {
		setIfNil(&svc.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
}

// defaultClusterIPs lets the single field and the list say the same. Where
// both are given and differ, validation has something to say.
func defaultClusterIPs(spec *corev1.ServiceSpec) {
	switch {
	case len(spec.ClusterIPs) == 0 && spec.ClusterIP != "":
		spec.ClusterIPs = []string{spec.ClusterIP}
	case len(spec.ClusterIPs) > 0 && spec.ClusterIP == "":
		spec.ClusterIP = spec.ClusterIPs[0]
	}
}

// defaultFamilies fills in ipFamilies and ipFamilyPolicy: from the given
// cluster IPs as far as they go, then from the cluster's families.
func (o Options) defaultFamilies(spec *corev1.ServiceSpec) {
	for i, text := range spec.ClusterIPs {
		a, ok := parseAddr(text)
		if !ok {
			break // refused later; what stands behind it says nothing
		}
		if i == len(spec.IPFamilies) {
			spec.IPFamilies = append(spec.IPFamilies, familyOf(a))
		}
	}
	headless := spec.ClusterIP == corev1.ClusterIPNone
	if headless && len(spec.Selector) == 0 {
		o.defaultManualHeadless(spec)
		return
	}
	setIfNil(&spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{o.families()[0]}
	}
	if other := otherFamily(spec.IPFamilies[0]); wantsBoth(spec) && o.configured(other) {
		spec.IPFamilies = append(spec.IPFamilies, other)
	}
}

// defaultManualHeadless fills in the families of a headless Service without a
// selector. Whoever writes its endpoints may use both families, whatever the
// cluster's are.
func (o Options) defaultManualHeadless(spec *corev1.ServiceSpec) {
	setIfNil(&spec.IPFamilyPolicy, corev1.IPFamilyPolicyRequireDualStack)
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{o.families()[0]}
	}
	if wantsBoth(spec) {
		spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
	}
}

// wantsBoth reports whether the policy asks for a second family that is not
// named yet.
func wantsBoth(spec *corev1.ServiceSpec) bool {
	return len(spec.IPFamilies) == 1 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

//nolint:staticcheck // deprecated, but people write them (E-21)
func defaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			setIfEmpty(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

func defaultSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		setIfNil(&s.Ports[i].Name, "")
		setIfNil(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range s.Endpoints {
		c := &s.Endpoints[i].Conditions
		ready, serving, terminating := conditions(c)
		*c = discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
	}
}

// setIfEmpty gives a string its default.
func setIfEmpty[S ~string](p *S, fallback S) {
	if *p == "" {
		*p = fallback
	}
}

// setIfNil gives an optional value its default.
func setIfNil[T any](p **T, fallback T) {
	if *p == nil {
		*p = &fallback
	}
}
