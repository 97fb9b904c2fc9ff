package convert

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const immutable = "field is immutable"

// validateServiceUpdate checks what may not change in a Service's life. A
// field that the new version leaves empty keeps its value, so it is no change.
func validateServiceUpdate(spec, old *corev1.ServiceSpec) field.ErrorList {
	errs := validateBalancerUpdate(spec, old)
	if spec.Type == corev1.ServiceTypeExternalName || old.Type == corev1.ServiceTypeExternalName {
		return errs // gives its addresses back, or gets some
	}
	if primaryChanges(spec, old) {
		return append(errs, field.Invalid(clusterIPsPath.Index(0), spec.ClusterIP, immutable))
	}
	if len(spec.IPFamilies) > 0 && len(old.IPFamilies) > 0 && spec.IPFamilies[0] != old.IPFamilies[0] {
		errs = append(errs, field.Invalid(familiesPath.Index(0), spec.IPFamilies[0], "may not change once set"))
	}
	// A second address may come and go with the policy, but not change.
	if len(spec.ClusterIPs) > 1 && len(old.ClusterIPs) > 1 && spec.ClusterIPs[1] != old.ClusterIPs[1] {
		errs = append(errs, field.Invalid(clusterIPsPath.Index(1), spec.ClusterIPs[1], "may not change once set"))
	}
	return errs
}

// primaryChanges reports whether the first cluster IP becomes another one, or
// whether the Service turns headless or back.
func primaryChanges(spec, old *corev1.ServiceSpec) bool {
	wasHeadless, isHeadless := old.ClusterIP == corev1.ClusterIPNone, spec.ClusterIP == corev1.ClusterIPNone
	if wasHeadless != isHeadless {
		return true
	}
	return spec.ClusterIP != "" && old.ClusterIP != "" && spec.ClusterIP != old.ClusterIP
}

// validateBalancerUpdate checks the fields that a load balancer was made with.
func validateBalancerUpdate(spec, old *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	if spec.Type != corev1.ServiceTypeLoadBalancer || old.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	if value(spec.LoadBalancerClass, "") != value(old.LoadBalancerClass, "") {
		errs = append(errs, field.Invalid(specPath.Child("loadBalancerClass"), spec.LoadBalancerClass, "may not change once set"))
	}
	was, is := old.HealthCheckNodePort, spec.HealthCheckNodePort
	sameNeed := spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && old.ExternalTrafficPolicy == spec.ExternalTrafficPolicy
	if sameNeed && was != 0 && is != 0 && was != is {
		errs = append(errs, field.Invalid(specPath.Child("healthCheckNodePort"), is, immutable))
	}
	return errs
}
