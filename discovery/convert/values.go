package convert

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

const (
	maxAffinitySeconds = 86400 // one day
	outOfPorts         = "must be between 1 and 65535"
)

// number is any integer that a port can be written as.
type number interface{ ~int | ~int32 | ~uint16 }

func isPort[N number](n N) bool { return n >= 1 && int(n) <= 65535 }

func portText[N number](n N) string { return strconv.Itoa(int(n)) }

// portID names a port among those of a Service: "80/TCP".
func portID[N number](n N, protocol string) string { return portText(n) + "/" + protocol }

// needsNodePorts reports whether a type builds on node ports.
func needsNodePorts(t corev1.ServiceType) bool {
	return t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer
}

// externallyAccessible reports whether traffic from outside can be meant for
// a Service, so that an external traffic policy has a meaning (P-11).
func externallyAccessible(svc *corev1.Service) bool {
	t := svc.Spec.Type
	return needsNodePorts(t) || t == corev1.ServiceTypeClusterIP && len(svc.Spec.ExternalIPs) > 0
}

// needsHealthCheck reports whether a Service has a health-check node port.
func needsHealthCheck(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}
