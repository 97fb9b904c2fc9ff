package convert

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	onlyLoadBalancer  = "may only be used when `type` is 'LoadBalancer'"
	kubeletPort       = 10250
	onlyExternallySet = "may only be set for externally-accessible services"
)

var serviceTypes = []corev1.ServiceType{
	corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName,
	corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort,
}

// validateService checks a whole Service.
func (o Options) validateService(svc, old *corev1.Service) field.ErrorList {
	var before corev1.ServiceSpec
	if old != nil {
		before = old.Spec
	}
	errs := validateMeta(&svc.ObjectMeta, namespaced, apivalidation.NameIsDNS1035Label)
	errs = append(errs, validateTopologyAnnotations(svc.Annotations)...)
	errs = append(errs, validateType(&svc.Spec)...)
	errs = append(errs, validatePorts(&svc.Spec)...)
	errs = append(errs, metavalidation.ValidateLabels(svc.Spec.Selector, specPath.Child("selector"))...)
	errs = append(errs, validateAffinity(&svc.Spec)...)
	errs = append(errs, ipList(externalIPsPath, svc.Spec.ExternalIPs, before.ExternalIPs)...)
	errs = append(errs, validatePolicies(svc)...)
	errs = append(errs, validateLoadBalancer(svc, &before)...)
	errs = append(errs, o.validateFamilies(&svc.Spec)...)
	errs = append(errs, validateClusterIPs(&svc.Spec, before.ClusterIPs)...)
	if old != nil {
		errs = append(errs, validateServiceUpdate(&svc.Spec, &old.Spec)...)
	}
	return errs
}

// validateType checks what depends on the type alone.
func validateType(spec *corev1.ServiceSpec) field.ErrorList {
	errs := oneOf(specPath.Child("type"), spec.Type, serviceTypes)
	headless := spec.ClusterIP == corev1.ClusterIPNone
	switch {
	case spec.Type == corev1.ServiceTypeExternalName:
		return append(errs, validateExternalName(spec)...)
	case needsNodePorts(spec.Type) && headless:
		errs = append(errs, field.Invalid(clusterIPsPath.Index(0), corev1.ClusterIPNone,
			"may not be set to 'None' for "+string(spec.Type)+" services"))
	}
	if len(spec.Ports) == 0 && !headless {
		errs = append(errs, field.Required(specPath.Child("ports"), ""))
	}
	return errs
}

// validateExternalName checks the target name, which may end with a dot. An
// IPv4 address passes: it looks like a name (dns-requirements X10). Upper case
// passes too, unlike in an API server: DNS does not mind (X14).
func validateExternalName(spec *corev1.ServiceSpec) field.ErrorList {
	const notSet = "may not be set for ExternalName services"
	var errs field.ErrorList
	if len(spec.ClusterIPs) > 0 {
		errs = append(errs, field.Forbidden(clusterIPsPath, notSet))
	}
	if len(spec.IPFamilies) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("ipFamilies"), notSet))
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, field.Forbidden(specPath.Child("ipFamilyPolicy"), notSet))
	}
	path := specPath.Child("externalName")
	if spec.ExternalName == "" {
		return append(errs, field.Required(path, ""))
	}
	name := strings.TrimSuffix(spec.ExternalName, ".")
	return append(errs, invalidFor(path, spec.ExternalName, validation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}

func validateAffinity(spec *corev1.ServiceSpec) field.ErrorList {
	path, config := specPath.Child("sessionAffinity"), specPath.Child("sessionAffinityConfig")
	switch spec.SessionAffinity {
	case "":
		return field.ErrorList{field.Required(path, "")}
	case corev1.ServiceAffinityNone:
		if spec.SessionAffinityConfig != nil {
			return field.ErrorList{field.Forbidden(config, "must not be set when `sessionAffinity` is 'None'")}
		}
		return nil
	case corev1.ServiceAffinityClientIP:
		return validateAffinityTimeout(config.Child("clientIP", "timeoutSeconds"), affinityTimeout(spec))
	default:
		return oneOf(path, spec.SessionAffinity, []corev1.ServiceAffinity{corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone})
	}
}

func validateAffinityTimeout(path *field.Path, seconds *int32) field.ErrorList {
	switch {
	case seconds == nil:
		return field.ErrorList{field.Required(path, "when `sessionAffinity` is 'ClientIP'")}
	case !isAffinityTimeout(*seconds):
		return field.ErrorList{field.Invalid(path, *seconds, "must be greater than 0 and at most 86400 (one day)")}
	default:
		return nil
	}
}

// validatePolicies checks the traffic policies, the distribution and the
// health-check node port, which hangs on a policy.
func validatePolicies(svc *corev1.Service) field.ErrorList {
	spec := &svc.Spec
	var errs field.ErrorList
	internal := specPath.Child("internalTrafficPolicy")
	switch {
	case spec.InternalTrafficPolicy != nil:
		errs = oneOf(internal, *spec.InternalTrafficPolicy, []corev1.ServiceInternalTrafficPolicy{
			corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal,
		})
	case spec.Type != corev1.ServiceTypeExternalName:
		errs = append(errs, field.Required(internal, ""))
	}
	errs = append(errs, validateExternalPolicy(svc)...)
	if d := spec.TrafficDistribution; d != nil {
		errs = append(errs, oneOf(specPath.Child("trafficDistribution"), *d, []string{
			corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone,
			corev1.ServiceTrafficDistributionPreferSameNode,
		})...)
	}
	return append(errs, validateHealthCheckPort(svc)...)
}

func validateExternalPolicy(svc *corev1.Service) field.ErrorList {
	path, policy := specPath.Child("externalTrafficPolicy"), svc.Spec.ExternalTrafficPolicy
	switch {
	case !externallyAccessible(svc) && policy != "":
		return field.ErrorList{field.Invalid(path, policy, onlyExternallySet)}
	case !externallyAccessible(svc):
		return nil
	case policy == "":
		return field.ErrorList{field.Required(path, "")}
	default:
		return oneOf(path, policy, []corev1.ServiceExternalTrafficPolicy{
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal,
		})
	}
}

func validateHealthCheckPort(svc *corev1.Service) field.ErrorList {
	path, port := specPath.Child("healthCheckNodePort"), svc.Spec.HealthCheckNodePort
	switch {
	case port == 0: // to be allocated, where it is needed
		return nil
	case !needsHealthCheck(svc):
		return field.ErrorList{field.Invalid(path, port,
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")}
	default:
		return invalidFor(path, port, validation.IsValidPortNum(int(port)))
	}
}
