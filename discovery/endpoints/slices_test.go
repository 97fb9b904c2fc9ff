package endpoints

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestSlices(t *testing.T) {
	t.Parallel()
	sidecar := func(policy corev1.ContainerRestartPolicy) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.InitContainers = pod.Spec.Containers
			pod.Spec.InitContainers[0].RestartPolicy = &policy
			pod.Spec.Containers = []corev1.Container{{Name: "main"}}
		}
	}
	const placeholder = "IPv4 []: "
	cases := []struct {
		name string
		svc  *corev1.Service
		pods []*corev1.Pod
		want string
	}{
		{"E-01 other labels, other namespace", newService(), []*corev1.Pod{
			newPod("a", "10.0.0.1"),
			newPod("b", "10.0.0.2", func(p *corev1.Pod) { p.Labels["app"] = "db" }),
			newPod("c", "10.0.0.3", func(p *corev1.Pod) { p.Namespace = "other" }),
		}, "IPv4 [http=8080/TCP]: 10.0.0.1"},
		{
			"E-01 empty selector", newService(func(s *corev1.Service) { s.Spec.Selector = map[string]string{} }),
			[]*corev1.Pod{newPod("a", "10.0.0.1", func(p *corev1.Pod) { p.Labels = nil })},
			"IPv4 [http=8080/TCP]: 10.0.0.1",
		},
		{"E-02 no address", newService(), []*corev1.Pod{newPod("a", ""), newPod("b", "bogus")}, placeholder},
		{
			"E-02 B71 finished pods, published or not", newService(publishNotReady),
			[]*corev1.Pod{newPod("a", "10.0.0.1", phase(corev1.PodSucceeded)), newPod("b", "10.0.0.2", phase(corev1.PodFailed))},
			placeholder,
		},
		{
			"E-02 unknown and pending phases go by readiness", newService(),
			[]*corev1.Pod{newPod("a", "10.0.0.1", phase(corev1.PodUnknown)), newPod("b", "10.0.0.2", phase(corev1.PodPending), notReady)},
			"IPv4 [http=8080/TCP]: 10.0.0.1 10.0.0.2-ready",
		},
		{
			"E-03 conditions", newService(),
			[]*corev1.Pod{
				newPod("a", "10.0.0.1"), newPod("b", "10.0.0.2", notReady), newPod("c", "10.0.0.3", leaving),
				newPod("d", "10.0.0.4", leaving, notReady), newPod("e", "10.0.0.5", func(p *corev1.Pod) { p.Status.Conditions = nil }),
			},
			"IPv4 [http=8080/TCP]: 10.0.0.1 10.0.0.2-ready 10.0.0.3-ready+serving+terminating 10.0.0.4-ready+terminating 10.0.0.5-ready",
		},
		{
			"E-03 publishNotReadyAddresses", newService(publishNotReady),
			[]*corev1.Pod{newPod("b", "10.0.0.2", notReady), newPod("d", "10.0.0.4", leaving, notReady)},
			"IPv4 [http=8080/TCP]: 10.0.0.2-serving 10.0.0.4-serving+terminating",
		},
		{
			"E-05 a name is another number at another pod", newService(),
			[]*corev1.Pod{newPod("a", "10.0.0.1"), newPod("b", "10.0.0.2", httpPort(9090))},
			"IPv4 [http=8080/TCP]: 10.0.0.1\nIPv4 [http=9090/TCP]: 10.0.0.2",
		},
		{
			"E-05 numbers, unset is the port itself", newService(func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{
					{Name: "a", Port: 80, TargetPort: intstr.FromInt32(1234)}, {Name: "b", Port: 81}, {Name: "c", Port: 82, TargetPort: intstr.FromString("")},
				}
			}),
			[]*corev1.Pod{newPod("a", "10.0.0.1")},
			"IPv4 [a=1234/TCP b=81/TCP c=82/TCP]: 10.0.0.1",
		},
		{
			"E-05 the protocol must match; the other port still works", newService(func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
					Name: "udp", Protocol: corev1.ProtocolUDP, Port: 80, TargetPort: intstr.FromString("http"),
				})
			}),
			[]*corev1.Pod{newPod("a", "10.0.0.1")},
			"IPv4 [http=8080/TCP]: 10.0.0.1",
		},
		{"E-05 sidecar", newService(), []*corev1.Pod{newPod("a", "10.0.0.1", sidecar(corev1.ContainerRestartPolicyAlways))}, "IPv4 [http=8080/TCP]: 10.0.0.1"},
		{"E-05 plain init container", newService(), []*corev1.Pod{newPod("a", "10.0.0.1", sidecar(corev1.ContainerRestartPolicyNever))}, "IPv4 []: 10.0.0.1"},
		{
			"E-06 headless without ports", newService(func(s *corev1.Service) { s.Spec.Ports, s.Spec.ClusterIP = nil, corev1.ClusterIPNone }),
			[]*corev1.Pod{newPod("a", "10.0.0.1")},
			"IPv4 []: 10.0.0.1",
		},
		{
			"E-07 hostname under its own subdomain only", newService(),
			[]*corev1.Pod{
				newPod("a", "10.0.0.1", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "a-0", "web" }),
				newPod("b", "10.0.0.2", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "b-0", "other" }),
				newPod("c", "10.0.0.3", func(p *corev1.Pod) { p.Spec.Hostname = "c-0" }),
			},
			"IPv4 [http=8080/TCP]: 10.0.0.1=a-0 10.0.0.2 10.0.0.3",
		},
		{"E-09 placeholder", newService(), nil, placeholder},
		{
			"E-11 both families", newService(func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			}),
			[]*corev1.Pod{newPod("a", "10.0.0.1", dualStack("fd00::1")), newPod("b", "10.0.0.2")},
			"IPv4 [http=8080/TCP]: 10.0.0.1 10.0.0.2\nIPv6 [http=8080/TCP]: fd00::1",
		},
		{
			"E-11 the family of the cluster IP", newService(func(s *corev1.Service) { s.Spec.ClusterIP = "fd00::10" }),
			[]*corev1.Pod{newPod("a", "10.0.0.1", dualStack("fd00::1"))},
			"IPv6 [http=8080/TCP]: fd00::1",
		},
		{"E-20 B70 two pods with one address", newService(), []*corev1.Pod{
			newPod("a", "10.0.0.1", notReady), newPod("b", "10.0.0.1"), newPod("c", "10.0.0.1", phase(corev1.PodFailed)),
		}, "IPv4 [http=8080/TCP]: 10.0.0.1-ready 10.0.0.1"},
		{"the same pod twice", newService(), []*corev1.Pod{newPod("a", "10.0.0.1"), newPod("a", "10.0.0.1"), nil}, "IPv4 [http=8080/TCP]: 10.0.0.1"},
		{
			"P-09 canonical addresses, in numeric order", newService(),
			[]*corev1.Pod{newPod("a", "010.000.0.010"), newPod("b", "::ffff:10.0.0.9")},
			"IPv4 [http=8080/TCP]: 10.0.0.9 10.0.0.10",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Options{}.Slices(c.svc, c.pods, nil, nil)
			if diff := cmp.Diff(c.want, describe(got)); diff != "" {
				t.Error(diff)
			}
			slices.Reverse(c.pods)
			if diff := cmp.Diff(got, Options{}.Slices(c.svc, c.pods, nil, nil)); diff != "" {
				t.Errorf("the order of the pods matters:\n%s", diff)
			}
		})
	}
}

func TestNothingIsMade(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{newPod("a", "10.0.0.1")}
	for name, svc := range map[string]*corev1.Service{
		"E-01 nil selector":      newService(func(s *corev1.Service) { s.Spec.Selector = nil }),
		"E-01 B73 external name": newService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }),
		"no service":             nil,
	} {
		if got := (Options{}).Slices(svc, pods, nil, nil); got != nil {
			t.Errorf("%s: slices %s", name, describe(got))
		}
		if got := Endpoints(svc, pods); got != nil {
			t.Errorf("%s: endpoints %v", name, got)
		}
	}
}

func TestNodesAndTargets(t *testing.T) {
	t.Parallel()
	nodes := map[string]*corev1.Node{"n1": {ObjectMeta: metav1.ObjectMeta{
		Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: "z1"},
	}}}
	pods := []*corev1.Pod{newPod("a", "10.0.0.1"), newPod("b", "10.0.0.2", onNode("gone")), newPod("c", "10.0.0.3", onNode(""))}
	t.Run("E-07 node, zone, target", func(t *testing.T) {
		t.Parallel()
		eps := Options{}.Slices(newService(), pods, nodes, nil)[0].Endpoints
		if len(eps) != 3 || value(eps[0].NodeName) != "n1" || value(eps[0].Zone) != "z1" || eps[1].Zone != nil || eps[2].NodeName != nil {
			t.Errorf("endpoints %+v", eps)
		}
		want := &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "a", UID: "uid-a"}
		if diff := cmp.Diff(want, eps[0].TargetRef); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("E-08 missing node", func(t *testing.T) {
		t.Parallel()
		got := Options{RequireNode: true}.Slices(newService(), pods, nodes, nil)
		if text := describe(got); text != "IPv4 [http=8080/TCP]: 10.0.0.1" {
			t.Errorf("got %s", text)
		}
		got = Options{RequireNode: true}.Slices(newService(publishNotReady), pods, nodes, nil)
		if text := describe(got); text != "IPv4 [http=8080/TCP]: 10.0.0.1 10.0.0.2 10.0.0.3" {
			t.Errorf("with publishNotReadyAddresses: got %s", text)
		}
	})
}

func TestSliceMeta(t *testing.T) {
	t.Parallel()
	svc := newService(func(s *corev1.Service) {
		s.Spec.ClusterIP = corev1.ClusterIPNone
		s.Labels = map[string]string{"team": "a", discoveryv1.LabelManagedBy: "me"}
	})
	s := Options{}.Slices(svc, []*corev1.Pod{newPod("a", "10.0.0.1")}, nil, nil)[0]
	want := map[string]string{
		"team": "a", discoveryv1.LabelManagedBy: ManagedBy, discoveryv1.LabelServiceName: "web", corev1.IsHeadlessService: "",
	}
	if diff := cmp.Diff(want, s.Labels); diff != "" {
		t.Errorf("E-09 labels:\n%s", diff)
	}
	owner := metav1.GetControllerOf(s)
	if owner == nil || owner.Kind != "Service" || owner.APIVersion != "v1" || owner.Name != "web" || owner.UID != "svc-uid" {
		t.Errorf("E-09 owner %+v", owner)
	}
	if len(s.Name) != len("web-xxxxx") || s.Name[:4] != "web-" || s.Namespace != "default" {
		t.Errorf("E-09 name %q", s.Name)
	}
}

func TestTriggerTime(t *testing.T) {
	t.Parallel()
	at := func(sec int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Unix(sec, 0) }
	}
	stamp := func(s *discoveryv1.EndpointSlice) string { return s.Annotations[corev1.EndpointsLastChangeTriggerTime] }
	svc := newService(func(s *corev1.Service) { s.CreationTimestamp = metav1.Unix(50, 0) })
	pods := []*corev1.Pod{newPod("a", "10.0.0.1", at(70)), newPod("b", "10.0.0.2", at(60))}
	first := Options{}.Slices(svc, pods, nil, nil)
	if got := stamp(first[0]); got != "1970-01-01T00:01:00Z" {
		t.Errorf("E-12 the earliest readiness: %q", got)
	}
	old := Options{}.Slices(svc, []*corev1.Pod{newPod("a", "10.0.0.1", at(10))}, nil, nil)
	if got := stamp(old[0]); got != "1970-01-01T00:00:50Z" {
		t.Errorf("E-12 not before the service was: %q", got)
	}
	second := Options{}.Slices(svc, append(pods, newPod("c", "10.0.0.3", at(90))), nil, first)
	if got := stamp(second[0]); got != "1970-01-01T00:01:30Z" {
		t.Errorf("E-12 only what changed counts: %q", got)
	}
	third := Options{}.Slices(svc, append(pods, newPod("d", "10.0.0.4")), nil, second)
	if got, ok := third[0].Annotations[corev1.EndpointsLastChangeTriggerTime]; ok {
		t.Errorf("E-12 removed if unknown: %q", got)
	}
	if _, err := time.Parse(time.RFC3339Nano, stamp(second[0])); err != nil {
		t.Error(err)
	}
}
