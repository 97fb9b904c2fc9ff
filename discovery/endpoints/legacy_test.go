//nolint:staticcheck // the deprecated Endpoints are what this file is about (E-21)
package endpoints

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func describeLegacy(eps *corev1.Endpoints) string {
	var lines []string
	for _, s := range eps.Subsets {
		var text []string
		for _, p := range s.Ports {
			text = append(text, fmt.Sprintf("%s=%d/%s", p.Name, p.Port, p.Protocol))
		}
		text = append(text, ":")
		for _, a := range s.Addresses {
			text = append(text, a.IP)
		}
		for _, a := range s.NotReadyAddresses {
			text = append(text, a.IP+"-ready")
		}
		lines = append(lines, strings.Join(text, " "))
	}
	return strings.Join(lines, "\n")
}

func TestLegacyEndpoints(t *testing.T) {
	t.Parallel()
	noName := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }
	twoPorts := func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "admin", Port: 99, TargetPort: intstr.FromInt32(99)})
	}
	cases := []struct {
		name string
		svc  *corev1.Service
		pods []*corev1.Pod
		want string
	}{
		{
			"E-04 ready and not", newService(),
			[]*corev1.Pod{newPod("a", "10.0.0.10"), newPod("b", "10.0.0.9"), newPod("c", "10.0.0.3", notReady)},
			"http=8080/TCP : 10.0.0.9 10.0.0.10 10.0.0.3-ready",
		},
		{"E-02 terminating", newService(), []*corev1.Pod{newPod("a", "10.0.0.1", leaving)}, ""},
		{"E-02 terminating, published", newService(publishNotReady), []*corev1.Pod{newPod("a", "10.0.0.1", leaving, notReady)}, "http=8080/TCP : 10.0.0.1"},
		{"E-02 B71 finished, published", newService(publishNotReady), []*corev1.Pod{newPod("a", "10.0.0.1", phase(corev1.PodFailed))}, ""},
		{
			"E-05 separate subsets", newService(),
			[]*corev1.Pod{newPod("a", "10.0.0.1"), newPod("b", "10.0.0.2", httpPort(9))},
			"http=8080/TCP : 10.0.0.1\nhttp=9/TCP : 10.0.0.2",
		},
		{"E-06 no port resolved", newService(), []*corev1.Pod{newPod("a", "10.0.0.1", noName)}, ""},
		{
			"E-05 one of two ports", newService(twoPorts),
			[]*corev1.Pod{newPod("a", "10.0.0.1", noName), newPod("b", "10.0.0.2")},
			"admin=99/TCP : 10.0.0.1\nhttp=8080/TCP admin=99/TCP : 10.0.0.2",
		},
		{
			"E-06 headless without ports", newService(func(s *corev1.Service) { s.Spec.Ports, s.Spec.ClusterIP = nil, corev1.ClusterIPNone }),
			[]*corev1.Pod{newPod("a", "10.0.0.1")},
			": 10.0.0.1",
		},
		{
			"E-04 B70 ready wins", newService(),
			[]*corev1.Pod{newPod("a", "10.0.0.1", notReady), newPod("b", "10.0.0.1")},
			"http=8080/TCP : 10.0.0.1",
		},
		{
			"E-11 the first family only", newService(func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			}),
			[]*corev1.Pod{newPod("a", "10.0.0.1", dualStack("fd00::1"))},
			"http=8080/TCP : fd00::1",
		},
		{"no pods", newService(), nil, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Endpoints(c.svc, c.pods)
			if diff := cmp.Diff(c.want, describeLegacy(got)); diff != "" {
				t.Error(diff)
			}
			slices.Reverse(c.pods)
			if diff := cmp.Diff(got, Endpoints(c.svc, c.pods)); diff != "" {
				t.Errorf("the order of the pods matters:\n%s", diff)
			}
		})
	}
}

func TestLegacyMeta(t *testing.T) {
	t.Parallel()
	svc := newService(func(s *corev1.Service) {
		s.Spec.ClusterIP = corev1.ClusterIPNone
		s.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"team": "a"}}
	})
	got := Endpoints(svc, []*corev1.Pod{newPod("a", "10.0.0.1", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "a-0", "web" })})
	if diff := cmp.Diff(map[string]string{"team": "a", corev1.IsHeadlessService: ""}, got.Labels); diff != "" {
		t.Errorf("E-14 labels:\n%s", diff)
	}
	if a := got.Subsets[0].Addresses[0]; a.Hostname != "a-0" || value(a.NodeName) != "n1" || a.TargetRef.UID != "uid-a" {
		t.Errorf("E-07 address %+v", a)
	}
	if len(svc.Labels) != 1 {
		t.Error("the service was changed")
	}
}

func TestLegacyTruncation(t *testing.T) {
	t.Parallel()
	count := func(eps *corev1.Endpoints) (ready, rest []int) {
		for _, s := range eps.Subsets {
			ready, rest = append(ready, len(s.Addresses)), append(rest, len(s.NotReadyAddresses))
		}
		return ready, rest
	}
	cases := []struct {
		name          string
		ready, rest   [2]int // of the two subsets
		wantReady     []int
		wantRest      []int
		wantTruncated bool
	}{
		{"exactly 1000", [2]int{400, 300}, [2]int{200, 100}, []int{400, 300}, []int{200, 100}, false},
		{"all ready ones stay", [2]int{500, 400}, [2]int{100, 200}, []int{500, 400}, []int{34, 66}, true},
		{"too many ready ones", [2]int{1000, 500}, [2]int{3, 3}, []int{667, 333}, []int{0, 0}, true},
	}
	for _, c := range cases {
		t.Run("E-13 "+c.name, func(t *testing.T) {
			t.Parallel()
			var pods []*corev1.Pod
			add := func(n, port int, changes ...func(*corev1.Pod)) {
				for range n {
					i := len(pods)
					pods = append(pods, newPod(fmt.Sprint("p", i), fmt.Sprintf("10.0.%d.%d", i>>8, i&255), append(changes, httpPort(int32(port)))...))
				}
			}
			for i := range 2 {
				add(c.ready[i], 1000+i)
				add(c.rest[i], 1000+i, notReady)
			}
			got := Endpoints(newService(), pods)
			ready, rest := count(got)
			if !slices.Equal(ready, c.wantReady) || !slices.Equal(rest, c.wantRest) {
				t.Errorf("ready %v, not ready %v; want %v, %v", ready, rest, c.wantReady, c.wantRest)
			}
			if (got.Annotations[corev1.EndpointsOverCapacity] == "truncated") != c.wantTruncated {
				t.Errorf("annotations %v", got.Annotations)
			}
		})
	}
}
