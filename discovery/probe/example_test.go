package probe_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"signpost/discovery"
	"signpost/discovery/probe"
)

func Example() {
	server := httptest.NewServer(nil) // answers 404
	defer server.Close()
	u, _ := url.Parse(server.URL)
	port, _ := strconv.Atoi(u.Port())

	// A pod at that address which is ready when its port can be connected to.
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:  "web",
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(port)}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")},
			}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: u.Hostname()},
	}

	flips := make(chan string)
	prober := probe.New(slog.New(slog.DiscardHandler), func(k discovery.Key, ready bool) {
		flips <- fmt.Sprint(k, " ready: ", ready)
	})
	defer prober.Close()
	prober.Set([]*corev1.Pod{pod})
	fmt.Println(<-flips)
	fmt.Println(prober.Ready(discovery.Key{Namespace: "default", Name: "web-0"}))

	// Output:
	// default/web-0 ready: true
	// true true
}
