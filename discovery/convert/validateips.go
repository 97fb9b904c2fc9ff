package convert

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	ipFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	ipPolicies = []corev1.IPFamilyPolicy{
		corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack,
	}
)

// validateFamilies checks the IP families, what the policy says of their
// number, and whether this cluster has them.
func (o Options) validateFamilies(spec *corev1.ServiceSpec) field.ErrorList {
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	// Whoever writes the endpoints of such a Service may use any family.
	anyFamily := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	var errs field.ErrorList
	seen := sets.New[corev1.IPFamily]()
	for i, f := range spec.IPFamilies {
		path := familiesPath.Index(i)
		problems := oneOf(path, f, ipFamilies)
		switch {
		case len(problems) > 0:
			errs = append(errs, problems...)
		case seen.Has(f):
			errs = append(errs, field.Duplicate(path, f))
		case !anyFamily && !o.configured(f):
			errs = append(errs, field.Invalid(path, f, "not configured on this cluster"))
		}
		seen.Insert(f)
	}
	return append(errs, o.validateFamilyPolicy(spec, anyFamily)...)
}

func (o Options) validateFamilyPolicy(spec *corev1.ServiceSpec, anyFamily bool) field.ErrorList {
	if spec.IPFamilyPolicy == nil {
		return field.ErrorList{field.Required(policyPath, "")}
	}
	policy := *spec.IPFamilyPolicy
	errs := oneOf(policyPath, policy, ipPolicies)
	switch policy {
	case corev1.IPFamilyPolicySingleStack:
		const must = "must be RequireDualStack or PreferDualStack when multiple "
		if len(spec.ClusterIPs) > 1 {
			errs = append(errs, field.Invalid(policyPath, policy, must+"`clusterIPs` are specified"))
		} else if len(spec.IPFamilies) > 1 {
			errs = append(errs, field.Invalid(policyPath, policy, must+"`ipFamilies` are specified"))
		}
	case corev1.IPFamilyPolicyRequireDualStack:
		if !anyFamily && len(o.families()) < 2 {
			errs = append(errs, field.Invalid(policyPath, policy, "this cluster is not configured for dual-stack services"))
		}
	}
	return errs
}

// validateClusterIPs checks that the cluster IPs are addresses, agree with the
// single field and with the families. An empty list asks for an allocation.
func validateClusterIPs(spec *corev1.ServiceSpec, before []string) field.ErrorList {
	ips := spec.ClusterIPs
	if spec.Type == corev1.ServiceTypeExternalName || len(ips) == 0 {
		return nil
	}
	var errs field.ErrorList
	if spec.ClusterIP != ips[0] {
		errs = append(errs, field.Invalid(clusterIPsPath, ips, "first value must match `clusterIP`"))
	}
	if len(ips) > 2 {
		errs = append(errs, field.Invalid(clusterIPsPath, ips, "may only hold up to 2 values"))
	}
	if ips[0] == corev1.ClusterIPNone {
		if len(ips) > 1 {
			errs = append(errs, field.Invalid(clusterIPsPath, ips, "may not hold other values beside 'None'"))
		}
		return errs
	}
	for i, text := range ips {
		errs = append(errs, validateClusterIP(clusterIPsPath.Index(i), text, familyAt(spec, i), before)...)
	}
	return append(errs, oneOfEachFamily(clusterIPsPath, ips)...)
}

func validateClusterIP(path *field.Path, text string, wanted corev1.IPFamily, before []string) field.ErrorList {
	if text == corev1.ClusterIPNone {
		return field.ErrorList{field.Invalid(path, text, "may only be the first and only value")}
	}
	errs := validation.IsValidIPForLegacyField(path, text, true, before)
	a, ok := parseAddr(text)
	if ok && len(errs) == 0 && wanted != "" && familyOf(a) != wanted {
		errs = append(errs, field.Invalid(path, text, "must be an "+string(wanted)+" address, as the entry of `ipFamilies` says"))
	}
	return errs
}

// familyAt returns the family that the list names for a cluster IP; empty if none.
func familyAt(spec *corev1.ServiceSpec, i int) corev1.IPFamily {
	if i < len(spec.IPFamilies) {
		return spec.IPFamilies[i]
	}
	return ""
}

// oneOfEachFamily checks that a list of at most two addresses, such as a
// Service's or a pod's, has not two of one family.
func oneOfEachFamily(path *field.Path, texts []string) field.ErrorList {
	seen := sets.New[corev1.IPFamily]()
	for _, text := range texts {
		a, ok := parseAddr(text)
		if !ok {
			continue
		}
		if seen.Has(familyOf(a)) {
			return field.ErrorList{field.Invalid(path, texts, "may specify no more than one IP for each IP family")}
		}
		seen.Insert(familyOf(a))
	}
	return nil
}
