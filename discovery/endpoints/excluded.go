package endpoints

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Excluded explains, for people, why a pod is not, not wholly, or not as ready
// in the endpoints of a service that selects it; it is empty if nothing is
// wrong. Where several things are, it names the one to look at first: "phase
// Succeeded", "no pod IP of family IPv4", `no container port named "http"/TCP`,
// "pod is terminating", "pod is not ready".
func Excluded(svc *corev1.Service, pod *corev1.Pod) string {
	switch {
	case svc == nil || svc.Spec.Selector == nil:
		return "service has no selector"
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return "service is an ExternalName"
	case !Matches(svc, pod):
		return "labels do not match the selector"
	case finished(pod):
		return fmt.Sprintf("phase %s", pod.Status.Phase)
	}
	if reason := addressProblem(svc, pod); reason != "" {
		return reason
	}
	if _, missing := resolvePorts(svc, pod); len(missing) > 0 {
		return fmt.Sprintf("no container port named %q/%s", missing[0].TargetPort.StrVal, protocolOr(missing[0].Protocol))
	}
	return readinessProblem(svc, pod)
}

func addressProblem(svc *corev1.Service, pod *corev1.Pod) string {
	_, v4 := podAddr(pod, discoveryv1.AddressTypeIPv4)
	_, v6 := podAddr(pod, discoveryv1.AddressTypeIPv6)
	if !v4 && !v6 {
		return "no pod IP yet"
	}
	for _, family := range families(svc) {
		if _, ok := podAddr(pod, family); !ok {
			return fmt.Sprintf("no pod IP of family %s", family)
		}
	}
	return ""
}

func readinessProblem(svc *corev1.Service, pod *corev1.Pod) string {
	switch {
	case svc.Spec.PublishNotReadyAddresses:
		return ""
	case terminating(pod):
		return "pod is terminating"
	case !ready(pod):
		return "pod is not ready"
	}
	return ""
}
