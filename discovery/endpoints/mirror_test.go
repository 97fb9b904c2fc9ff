//nolint:staticcheck // the deprecated Endpoints are what this file is about (E-21)
package endpoints

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func manualService(changes ...func(*corev1.Service)) *corev1.Service {
	return newService(append([]func(*corev1.Service){func(s *corev1.Service) { s.Spec.Selector = nil }}, changes...)...)
}

// manual is an Endpoints object for it.
func manual(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "ep-uid"}, Subsets: subsets}
}

func subset(port int32, ready, notReady []string) corev1.EndpointSubset {
	s := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "http", Port: port}}}
	for _, ip := range ready {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: ip})
	}
	for _, ip := range notReady {
		s.NotReadyAddresses = append(s.NotReadyAddresses, corev1.EndpointAddress{IP: ip})
	}
	return s
}

func TestMirror(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		eps  *corev1.Endpoints
		want string
	}{
		{"one subset", manual(subset(9376, []string{"172.16.0.2", "172.16.0.1"}, nil)), "IPv4 [http=9376/TCP]: 172.16.0.1 172.16.0.2"},
		{"not ready", manual(subset(80, []string{"10.0.0.1"}, []string{"10.0.0.2"})), "IPv4 [http=80/TCP]: 10.0.0.1 10.0.0.2-ready"},
		{
			"per family", manual(subset(80, []string{"10.0.0.1", "fd00::1"}, []string{"fd00::2"})),
			"IPv4 [http=80/TCP]: 10.0.0.1\nIPv6 [http=80/TCP]: fd00::1 fd00::2-ready",
		},
		{
			"ports per subset", manual(subset(80, []string{"10.0.0.1"}, nil), subset(81, []string{"10.0.0.1"}, nil)),
			"IPv4 [http=80/TCP]: 10.0.0.1\nIPv4 [http=81/TCP]: 10.0.0.1",
		},
		{
			"subsets with equal ports", manual(subset(80, []string{"10.0.0.1"}, nil), subset(80, []string{"10.0.0.2", "10.0.0.1"}, nil)),
			"IPv4 [http=80/TCP]: 10.0.0.1 10.0.0.2",
		},
		{
			"E-04 B74 ready wins", manual(subset(80, []string{"10.0.0.1"}, []string{"10.0.0.1", "10.0.0.2"})),
			"IPv4 [http=80/TCP]: 10.0.0.1 10.0.0.2-ready",
		},
		{
			"B74 over subsets, not over ports", manual(subset(80, nil, []string{"10.0.0.1"}), subset(80, []string{"10.0.0.1"}, nil), subset(81, nil, []string{"10.0.0.1"})),
			"IPv4 [http=80/TCP]: 10.0.0.1\nIPv4 [http=81/TCP]: 10.0.0.1-ready",
		},
		{"without ports", manual(corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}}), "IPv4 []: 10.0.0.1"},
		{"malformed addresses", manual(subset(80, []string{"bogus", "", "1.2.3", "fe80::1%eth0", "010.0.0.1", "::ffff:10.0.0.2"}, nil)), "IPv4 [http=80/TCP]: 10.0.0.1 10.0.0.2"},
		{"no addresses", manual(subset(80, nil, nil)), ""},
		{"no subsets", manual(), ""},
	}
	for _, c := range cases {
		t.Run("E-17 "+c.name, func(t *testing.T) {
			t.Parallel()
			got := Mirror(manualService(), c.eps, nil)
			if diff := cmp.Diff(c.want, describe(got)); diff != "" || got == nil {
				t.Errorf("nil: %v\n%s", got == nil, diff)
			}
			for i, again := range Mirror(manualService(), c.eps, got) {
				if again != got[i] {
					t.Error("a second run changes something")
				}
			}
		})
	}
}

func TestMirrorDetails(t *testing.T) {
	t.Parallel()
	eps := manual(corev1.EndpointSubset{
		Addresses: []corev1.EndpointAddress{
			{IP: "10.0.0.1", Hostname: "h1", NodeName: new("n1"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "a"}},
			{IP: "10.0.0.1", Hostname: "h2"},
		},
		Ports: []corev1.EndpointPort{{Port: 53, Protocol: corev1.ProtocolUDP, AppProtocol: new("dns")}},
	})
	eps.Labels = map[string]string{"team": "a", discoveryv1.LabelManagedBy: "me"}
	eps.Annotations = map[string]string{
		"note": "x", corev1.EndpointsLastChangeTriggerTime: "2020-01-01T00:00:00Z", corev1.LastAppliedConfigAnnotation: "{}",
	}
	got := Mirror(manualService(), eps, nil)
	if text := describe(got); text != "IPv4 [=53/UDP]: 10.0.0.1=h1 10.0.0.1=h2" {
		t.Fatalf("got %s", text)
	}
	s := got[0]
	if ep := s.Endpoints[0]; value(ep.NodeName) != "n1" || ep.TargetRef.Name != "a" || ep.TargetRef == eps.Subsets[0].Addresses[0].TargetRef {
		t.Errorf("endpoint %+v", ep)
	}
	if value(s.Ports[0].AppProtocol) != "dns" {
		t.Error("the application protocol got lost")
	}
	labels := map[string]string{"team": "a", discoveryv1.LabelManagedBy: MirrorManagedBy, discoveryv1.LabelServiceName: "web"}
	if diff := cmp.Diff(labels, s.Labels) + cmp.Diff(map[string]string{"note": "x"}, s.Annotations); diff != "" {
		t.Error(diff)
	}
	if owner := metav1.GetControllerOf(s); owner == nil || owner.Kind != "Endpoints" || owner.UID != "ep-uid" {
		t.Errorf("owner %+v", owner)
	}
}

func TestMirrorRefuses(t *testing.T) {
	t.Parallel()
	eps := manual(subset(80, []string{"10.0.0.1"}, nil))
	changed := func(change func(*corev1.Endpoints)) *corev1.Endpoints {
		e := eps.DeepCopy()
		change(e)
		return e
	}
	cases := []struct {
		name string
		svc  *corev1.Service
		eps  *corev1.Endpoints
	}{
		{"no service", nil, eps},
		{"no endpoints", manualService(), nil},
		{"E-17 a selector", newService(), eps},
		{"E-17 an empty selector", newService(func(s *corev1.Service) { s.Spec.Selector = map[string]string{} }), eps},
		{"E-01 an alias", manualService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), eps},
		{"E-17 skip-mirror", manualService(), changed(func(e *corev1.Endpoints) { e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"} })},
		{"E-17 leader lock", manualService(), changed(func(e *corev1.Endpoints) { e.Annotations = map[string]string{leaderAnnotation: ""} })},
		{"another name", manualService(), changed(func(e *corev1.Endpoints) { e.Name = "db" })},
	}
	for _, c := range cases {
		if got := Mirror(c.svc, c.eps, nil); got != nil {
			t.Errorf("%s: %s", c.name, describe(got))
		}
	}
	kept := changed(func(e *corev1.Endpoints) { e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "false"} })
	if got := Mirror(manualService(), kept, nil); len(got) != 1 {
		t.Error("E-17 skip-mirror=false is not true")
	}
}

func TestMirrorLimit(t *testing.T) {
	t.Parallel()
	many := func(from, n int) []string {
		var ips []string
		for i := range n {
			ips = append(ips, fmt.Sprintf("10.%d.%d.%d", from, i>>8, i&255))
		}
		return ips
	}
	got := Mirror(manualService(), manual(subset(80, many(1, 900), many(2, 900)), subset(81, many(1, 1100), nil)), nil)
	ready := map[int32]int{}
	all := map[int32]int{}
	for _, s := range got {
		for _, ep := range s.Endpoints {
			all[*s.Ports[0].Port]++
			if *ep.Conditions.Ready {
				ready[*s.Ports[0].Port]++
			}
		}
	}
	if all[80] != 1000 || ready[80] != 900 || all[81] != 1000 || len(got) != 2 {
		t.Errorf("E-17: %d slices, %v of which ready %v", len(got), all, ready)
	}
}

func TestMirrorTakesOver(t *testing.T) {
	t.Parallel()
	orphans := Options{}.Slices(newService(), []*corev1.Pod{newPod("a", "10.0.0.1")}, nil, nil)
	eps := Endpoints(newService(), []*corev1.Pod{newPod("a", "10.0.0.1")})
	got := Mirror(manualService(), eps, orphans)
	if len(got) != 1 || got[0].Name != orphans[0].Name || got[0].Labels[discoveryv1.LabelManagedBy] != MirrorManagedBy {
		t.Errorf("E-22: %+v", got)
	}
	if count := addresses(got)["10.0.0.1"]; count != 1 {
		t.Errorf("E-22: the address is there %d times", count)
	}
}
