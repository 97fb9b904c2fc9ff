package endpoints

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// resolvePorts returns the ports that a pod serves the service on, in the
// service's order; those whose name the pod does not know come back as missing
// (E-05).
func resolvePorts(svc *corev1.Service, pod *corev1.Pod) (ports []discoveryv1.EndpointPort, missing []*corev1.ServicePort) {
	ports = []discoveryv1.EndpointPort{}
	for i := range svc.Spec.Ports {
		sp := &svc.Spec.Ports[i]
		number, found := targetPort(sp, pod)
		if !found {
			missing = append(missing, sp)
			continue
		}
		port := discoveryv1.EndpointPort{Name: new(sp.Name), Protocol: new(protocolOr(sp.Protocol)), Port: new(number)}
		if sp.AppProtocol != nil {
			port.AppProtocol = new(*sp.AppProtocol)
		}
		ports = append(ports, port)
	}
	return ports, missing
}

// targetPort finds the number behind a service port at a pod: as it stands,
// or of the first container port with that name and protocol.
func targetPort(sp *corev1.ServicePort, pod *corev1.Pod) (int32, bool) {
	if sp.TargetPort.Type == intstr.Int {
		if sp.TargetPort.IntVal == 0 {
			return sp.Port, true
		}
		return sp.TargetPort.IntVal, true
	}
	if sp.TargetPort.StrVal == "" {
		return sp.Port, true
	}
	for c := range listeners(pod) {
		for _, p := range c.Ports {
			if p.Name == sp.TargetPort.StrVal && protocolOr(p.Protocol) == protocolOr(sp.Protocol) {
				return p.ContainerPort, true
			}
		}
	}
	return 0, false
}

// listeners yields the containers that run as long as the pod does: the main
// ones, then the sidecars, which are init containers that restart always.
func listeners(pod *corev1.Pod) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i]) {
				return
			}
		}
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
			if sidecar && !yield(c) {
				return
			}
		}
	}
}

func protocolOr(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

// portsKey is the same for equal sets of ports in any order.
func portsKey(ports []discoveryv1.EndpointPort) string {
	if len(ports) == 1 {
		return portKey(&ports[0])
	}
	keys := make([]string, 0, len(ports))
	for i := range ports {
		keys = append(keys, portKey(&ports[i]))
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}

func portKey(p *discoveryv1.EndpointPort) string {
	return value(p.Name) + "/" + string(protocolOr(value(p.Protocol))) + "/" + strconv.Itoa(int(value(p.Port))) + "/" + value(p.AppProtocol)
}

// value is what a pointer points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
