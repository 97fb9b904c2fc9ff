package endpoints

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// newService selects app=web and serves http on the container port "http".
func newService(changes ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "svc-uid"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}
	for _, change := range changes {
		change(svc)
	}
	return svc
}

func publishNotReady(svc *corev1.Service) { svc.Spec.PublishNotReadyAddresses = true }

// newPod is a ready pod that newService selects; its http port is 8080.
func newPod(name, ip string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName:   "n1",
			Containers: []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	if ip != "" {
		pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	pod.UID = types.UID("uid-" + name)
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func notReady(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

func leaving(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(100, 0)} }

func phase(p corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = p }
}

func onNode(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = name }
}

func httpPort(number int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports[0].ContainerPort = number }
}

func dualStack(v6 string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: v6}) }
}

// describe writes slices one a line: family, ports, endpoints with what is
// special about them. It is the language of these tests.
func describe(all []*discoveryv1.EndpointSlice) string {
	var lines []string
	for _, s := range all {
		var ports, eps []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s=%d/%s", value(p.Name), value(p.Port), value(p.Protocol)))
		}
		for i := range s.Endpoints {
			eps = append(eps, describeEndpoint(&s.Endpoints[i]))
		}
		lines = append(lines, fmt.Sprintf("%s [%s]: %s", s.AddressType, strings.Join(ports, " "), strings.Join(eps, " ")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func describeEndpoint(ep *discoveryv1.Endpoint) string {
	text := strings.Join(ep.Addresses, "|")
	if ep.Hostname != nil {
		text += "=" + *ep.Hostname
	}
	if !*ep.Conditions.Ready {
		text += "-ready"
	}
	if *ep.Conditions.Serving != *ep.Conditions.Ready {
		text += map[bool]string{true: "+serving", false: "-serving"}[*ep.Conditions.Serving]
	}
	if *ep.Conditions.Terminating {
		text += "+terminating"
	}
	if h := ep.Hints; h != nil {
		for _, z := range h.ForZones {
			text += "~" + z.Name
		}
		for _, n := range h.ForNodes {
			text += "@" + n.Name
		}
	}
	return text
}

// addresses counts how often each address stands in the slices.
func addresses(all []*discoveryv1.EndpointSlice) map[string]int {
	count := map[string]int{}
	for _, s := range all {
		for _, ep := range s.Endpoints {
			count[ep.Addresses[0]]++
		}
	}
	return count
}
