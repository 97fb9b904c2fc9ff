package endpoints_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"signpost/discovery/endpoints"
)

func ExampleOptions_Slices() {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
	pod := func(name, ip string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, PodIP: ip,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
			},
		}
	}
	pods := []*corev1.Pod{pod("a", "10.0.0.1", corev1.ConditionTrue), pod("b", "10.0.0.2", corev1.ConditionFalse)}

	for _, slice := range (endpoints.Options{}).Slices(svc, pods, nil, nil) {
		for _, ep := range slice.Endpoints {
			fmt.Println(slice.AddressType, ep.Addresses[0], *slice.Ports[0].Port, "ready:", *ep.Conditions.Ready)
		}
	}
	fmt.Println("b:", endpoints.Excluded(svc, pods[1]))

	// Output:
	// IPv4 10.0.0.1 80 ready: true
	// IPv4 10.0.0.2 80 ready: false
	// b: pod is not ready
}
