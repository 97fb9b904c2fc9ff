package probe

import (
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// target is what a check needs to know.
type target struct {
	handler corev1.ProbeHandler
	host    string // the pod's address, or the host that the probe names
	port    int    // 0 if it could not be resolved
}

func (t target) equal(o target) bool {
	return t.host == o.host && t.port == o.port && reflect.DeepEqual(t.handler, o.handler)
}

// timing is when to probe and how many results it takes to believe them.
type timing struct {
	delay, period, timeout time.Duration
	success, failure       int
}

// timingOf fills in the API's defaults.
func timingOf(p *corev1.Probe) timing {
	seconds := func(n, unset int32) time.Duration { return time.Duration(positive(n, unset)) * time.Second }
	return timing{
		delay:   seconds(p.InitialDelaySeconds, 0),
		period:  seconds(p.PeriodSeconds, 10),
		timeout: seconds(p.TimeoutSeconds, 1),
		success: positive(p.SuccessThreshold, 1),
		failure: positive(p.FailureThreshold, 3),
	}
}

func positive(n, unset int32) int {
	if n <= 0 {
		return int(unset)
	}
	return int(n)
}

// wanted is one container's probe.
type wanted struct {
	target  target
	timing  timing
	started time.Time // of the container; zero if unknown
}

// probesOf lists the probes of a pod by container, and the containers whose
// probe has to be run inside of them.
func probesOf(pod *corev1.Pod) (probes map[string]wanted, inside []string) {
	probes = map[string]wanted{}
	address := podAddress(pod)
	if address == "" || finished(pod) {
		return probes, nil
	}
	for _, c := range lasting(pod) {
		switch p := c.ReadinessProbe; {
		case p == nil:
		case p.HTTPGet == nil && p.TCPSocket == nil && p.GRPC == nil:
			inside = append(inside, c.Name)
		default:
			probes[c.Name] = wanted{target: targetOf(c, address), timing: timingOf(p), started: startOf(pod, c.Name)}
		}
	}
	return probes, inside
}

// lasting returns the containers that run as long as the pod: the main ones
// and the sidecars.
func lasting(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = append(out, c)
		}
	}
	return out
}

func targetOf(c *corev1.Container, address string) target {
	h := c.ReadinessProbe.ProbeHandler
	t := target{handler: h, host: address}
	switch {
	case h.HTTPGet != nil:
		t.port = portOf(c, h.HTTPGet.Port)
		if h.HTTPGet.Host != "" {
			t.host = h.HTTPGet.Host
		}
	case h.TCPSocket != nil:
		t.port = portOf(c, h.TCPSocket.Port)
		if h.TCPSocket.Host != "" {
			t.host = h.TCPSocket.Host
		}
	case h.GRPC != nil:
		t.port = portOf(c, intstr.FromInt32(h.GRPC.Port))
	}
	return t
}

// portOf resolves a port that is a number or the name of one of the
// container's ports; 0 if it is neither.
func portOf(c *corev1.Container, port intstr.IntOrString) int {
	number := port.IntValue() // of a string of digits as well
	if port.Type == intstr.String {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
				break
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0
	}
	return number
}

// portText is the port as the manifest has it, for messages.
func (t target) portText() string {
	switch h := t.handler; {
	case h.HTTPGet != nil:
		return h.HTTPGet.Port.String()
	case h.TCPSocket != nil:
		return h.TCPSocket.Port.String()
	case h.GRPC != nil:
		return fmt.Sprint(h.GRPC.Port)
	}
	return ""
}

func podAddress(pod *corev1.Pod) string {
	if pod.Status.PodIP == "" && len(pod.Status.PodIPs) > 0 {
		return pod.Status.PodIPs[0].IP
	}
	return pod.Status.PodIP
}

func startOf(pod *corev1.Pod, container string) time.Time {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if s := &statuses[i]; s.Name == container && s.State.Running != nil {
				return s.State.Running.StartedAt.Time
			}
		}
	}
	return time.Time{}
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
