package convert

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateLoadBalancer checks the fields that only a load balancer may have.
func validateLoadBalancer(svc *corev1.Service, before *corev1.ServiceSpec) field.ErrorList {
	spec := &svc.Spec
	isLB := spec.Type == corev1.ServiceTypeLoadBalancer
	errs := validateSourceRanges(svc, before.LoadBalancerSourceRanges)
	switch path := specPath.Child("allocateLoadBalancerNodePorts"); {
	case isLB && spec.AllocateLoadBalancerNodePorts == nil:
		errs = append(errs, field.Required(path, ""))
	case !isLB && spec.AllocateLoadBalancerNodePorts != nil:
		errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
	}
	if class := spec.LoadBalancerClass; class != nil {
		path := specPath.Child("loadBalancerClass")
		if !isLB {
			errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
		}
		errs = append(errs, invalidFor(path, *class, validation.IsQualifiedName(*class))...)
	}
	if ip := spec.LoadBalancerIP; ip != "" && ip != before.LoadBalancerIP {
		errs = append(errs, validation.IsValidIPForLegacyField(specPath.Child("loadBalancerIP"), ip, true, nil)...)
	}
	return errs
}

// validateSourceRanges checks the list, or, without one, the annotation that
// cloud controllers read in its place.
func validateSourceRanges(svc *corev1.Service, before []string) field.ErrorList {
	isLB := svc.Spec.Type == corev1.ServiceTypeLoadBalancer
	if ranges := svc.Spec.LoadBalancerSourceRanges; len(ranges) > 0 {
		var errs field.ErrorList
		if !isLB {
			errs = append(errs, field.Forbidden(sourceRangesPath, onlyLoadBalancer))
		}
		for i, text := range ranges {
			// Blanks around an entry were always accepted.
			errs = append(errs, validation.IsValidCIDRForLegacyField(sourceRangesPath.Index(i), strings.TrimSpace(text), true, before)...)
		}
		return errs
	}
	text, ok := svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !ok {
		return nil
	}
	path := metadataPath.Child("annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	if !isLB {
		return field.ErrorList{field.Forbidden(path, onlyLoadBalancer)}
	}
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	for _, cidr := range strings.Split(text, ",") {
		if _, ok := parsePrefix(cidr); !ok {
			return field.ErrorList{field.Invalid(path, text, "must be a list of CIDRs separated by commas, as in 10.0.0.0/24,192.168.2.0/24")}
		}
	}
	return nil
}
