package convert

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"signpost/discovery"
)

// Annotations of Services that signpost reads; the model drops all others.
const (
	// AnnotationScheduler chooses the IPVS scheduler of a Service.
	AnnotationScheduler = "signpost/scheduler"
	// AnnotationKubeRouterScheduler is kube-router's word for it.
	AnnotationKubeRouterScheduler = "kube-router.io/service.scheduler"
	// AnnotationKubeRouterFlags is kube-router's word for the scheduler's flags.
	AnnotationKubeRouterFlags = "kube-router.io/service.schedflags"
)

var keptAnnotations = [...]string{
	AnnotationScheduler, AnnotationKubeRouterScheduler, AnnotationKubeRouterFlags,
	corev1.AnnotationTopologyMode,
}

// labelProxyName hands a Service to another proxy (P-01).
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// Service makes the model's service from an API Service and its slices. It
// never fails: what is unusable is left out and named in the warnings by field
// path, value and reason. Slices of a family in which the service has no
// cluster IP are left out too (X23), and all of an ExternalName service (E-01).
func Service(svc *corev1.Service, slices []*discoveryv1.EndpointSlice) (*discovery.Service, []string) {
	var w warnings
	s := identity(svc, &w)
	w.addresses(svc, s)
	w.traffic(svc, s)
	s.Ports = w.ports(svc)
	s.Slices = w.slices(s, slices)
	return s, w
}

func identity(svc *corev1.Service, w *warnings) *discovery.Service {
	proxy, hasProxy := svc.Labels[labelProxyName]
	s := &discovery.Service{
		Key:             discovery.Key{Namespace: svc.Namespace, Name: svc.Name},
		UID:             string(svc.UID),
		Created:         svc.CreationTimestamp.Time,
		Type:            w.serviceType(svc),
		PublishNotReady: svc.Spec.PublishNotReadyAddresses,
		Selector:        svc.Spec.Selector,
		Labels:          svc.Labels,
		Annotations:     annotations(svc.Annotations),
		Proxy:           proxy,
		HasProxy:        hasProxy,
	}
	switch {
	case s.Type == discovery.TypeExternalName:
		s.Kind = discovery.ExternalName
		s.ExternalName = w.externalName(svc)
	case isHeadless(svc):
		s.Kind = discovery.Headless
	}
	return s
}

func annotations(all map[string]string) map[string]string {
	var kept map[string]string
	for _, name := range keptAnnotations {
		if value, ok := all[name]; ok {
			if kept == nil {
				kept = make(map[string]string, 1)
			}
			kept[name] = value
		}
	}
	return kept
}

func (w *warnings) serviceType(svc *corev1.Service) discovery.Type {
	switch svc.Spec.Type {
	case corev1.ServiceTypeNodePort:
		return discovery.TypeNodePort
	case corev1.ServiceTypeLoadBalancer:
		return discovery.TypeLoadBalancer
	case corev1.ServiceTypeExternalName:
		return discovery.TypeExternalName
	case corev1.ServiceTypeClusterIP, "":
		return discovery.TypeClusterIP
	default:
		w.invalid(specPath.Child("type"), svc.Spec.Type, "unknown type, taken as ClusterIP")
		return discovery.TypeClusterIP
	}
}

// isHeadless reports whether a Service asks for no cluster IP. The label
// service.kubernetes.io/headless does not do that: it only hides the Service
// from the dataplane (P-01).
func isHeadless(svc *corev1.Service) bool {
	if len(svc.Spec.ClusterIPs) > 0 {
		return svc.Spec.ClusterIPs[0] == corev1.ClusterIPNone
	}
	return svc.Spec.ClusterIP == corev1.ClusterIPNone
}

// slices converts the slices that the service can use.
func (w *warnings) slices(s *discovery.Service, from []*discoveryv1.EndpointSlice) []*discovery.Slice {
	if s.Kind == discovery.ExternalName || len(from) == 0 {
		return nil
	}
	made := make([]*discovery.Slice, 0, len(from))
	for _, slice := range from {
		if !wantsFamily(s.ClusterIPs, slice.AddressType) {
			var unwanted warnings
			unwanted.invalid(field.NewPath("addressType"), slice.AddressType,
				"the Service has no cluster IP of this family, the slice is ignored")
			w.from(slice, unwanted)
			continue
		}
		converted, problems := Slice(slice)
		w.from(slice, problems)
		if converted != nil {
			made = append(made, converted)
		}
	}
	return made
}

// wantsFamily reports whether endpoints of a family can serve the cluster
// IPs. A service without any (headless, or not allocated yet) takes them all,
// and what is no family is for [Slice] to judge.
func wantsFamily(clusterIPs []netip.Addr, t discoveryv1.AddressType) bool {
	if len(clusterIPs) == 0 || (t != discoveryv1.AddressTypeIPv4 && t != discoveryv1.AddressTypeIPv6) {
		return true
	}
	return slices.ContainsFunc(clusterIPs, func(a netip.Addr) bool { return string(familyOf(a)) == string(t) })
}
