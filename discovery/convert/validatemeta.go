package convert

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	namespaced    = true
	clusterScoped = false
)

var protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}

func validateMeta(m *metav1.ObjectMeta, inNamespace bool, name apivalidation.ValidateNameFunc) field.ErrorList {
	return apivalidation.ValidateObjectMeta(m, inNamespace, name, metadataPath)
}

func validateNamespace(ns *corev1.Namespace) field.ErrorList {
	return validateMeta(&ns.ObjectMeta, clusterScoped, apivalidation.NameIsDNSLabel)
}

// invalidFor makes one problem of each message that a check of apimachinery
// returned about a value.
func invalidFor(path *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, m := range messages {
		errs = append(errs, field.Invalid(path, value, m))
	}
	return errs
}

// optionalLabel checks a field that is empty or one DNS label.
func optionalLabel(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return nil
	}
	return invalidFor(path, value, validation.IsDNS1123Label(value))
}

// optionalSubdomain checks a field that is empty or a DNS name, like that of a node.
func optionalSubdomain(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return nil
	}
	return invalidFor(path, value, validation.IsDNS1123Subdomain(value))
}

func validateProtocol(path *field.Path, p corev1.Protocol) field.ErrorList {
	if p == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return oneOf(path, p, protocols)
}

func validateAppProtocol(path *field.Path, p *string) field.ErrorList {
	if p == nil {
		return nil
	}
	return invalidFor(path, *p, validation.IsQualifiedName(*p))
}

func oneOf[S ~string](path *field.Path, value S, valid []S) field.ErrorList {
	for _, v := range valid {
		if v == value {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, valid)}
}

// ipList checks a list of addresses: each is one, strictly written unless the
// previous version of the object had it already, and usable for traffic.
func ipList(path *field.Path, addrs, before []string) field.ErrorList {
	var errs field.ErrorList
	for i, text := range addrs {
		at := path.Index(i)
		problems := validation.IsValidIPForLegacyField(at, text, true, before)
		errs = append(errs, problems...)
		if a, ok := parseAddr(text); ok && len(problems) == 0 {
			if reason := notForTraffic(a, false); reason != "" {
				errs = append(errs, field.Invalid(at, text, reason))
			}
		}
	}
	return errs
}

// validateTopologyAnnotations checks that the old and the new spelling of one
// annotation don't contradict each other.
func validateTopologyAnnotations(annotations map[string]string) field.ErrorList {
	mode, hasMode := annotations[corev1.AnnotationTopologyMode]
	old, hasOld := annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !hasMode || !hasOld || strings.EqualFold(mode, old) {
		return nil
	}
	path := metadataPath.Child("annotations").Key(corev1.AnnotationTopologyMode)
	return field.ErrorList{field.Invalid(path, mode, "must be the same as "+corev1.DeprecatedAnnotationTopologyAwareHints+" where both are given")}
}
