package endpoints

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestExcluded(t *testing.T) {
	t.Parallel()
	v6 := func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }
	both := func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
	udp := func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }
	noName := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }
	cases := []struct {
		name string
		svc  *corev1.Service
		pod  *corev1.Pod
		want string
	}{
		{"all well", newService(), newPod("a", "10.0.0.1"), ""},
		{"E-03 not ready", newService(), newPod("a", "10.0.0.1", notReady), "pod is not ready"},
		{"E-03 published", newService(publishNotReady), newPod("a", "10.0.0.1", notReady, leaving), ""},
		{"E-02 terminating", newService(), newPod("a", "10.0.0.1", leaving), "pod is terminating"},
		{"E-02 finished", newService(publishNotReady), newPod("a", "10.0.0.1", phase(corev1.PodSucceeded)), "phase Succeeded"},
		{"E-02 no address", newService(), newPod("a", ""), "no pod IP yet"},
		{"E-11 wrong family", newService(v6), newPod("a", "10.0.0.1"), "no pod IP of family IPv6"},
		{"E-11 one of two families", newService(both), newPod("a", "10.0.0.1"), "no pod IP of family IPv6"},
		{"E-05 port name", newService(), newPod("a", "10.0.0.1", noName), `no container port named "http"/TCP`},
		{"E-05 port protocol", newService(udp), newPod("a", "10.0.0.1"), `no container port named "http"/UDP`},
		{"the port comes before readiness", newService(), newPod("a", "10.0.0.1", noName, notReady), `no container port named "http"/TCP`},
		{"no match", newService(), newPod("a", "10.0.0.1", func(p *corev1.Pod) { p.Labels = nil }), "labels do not match the selector"},
		{"E-01 no selector", manualService(), newPod("a", "10.0.0.1"), "service has no selector"},
		{
			"E-01 an alias", newService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }),
			newPod("a", "10.0.0.1"), "service is an ExternalName",
		},
		{"no pod", newService(), nil, "labels do not match the selector"},
		{"no service", nil, newPod("a", "10.0.0.1"), "service has no selector"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := Excluded(c.svc, c.pod); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	pod := newPod("a", "10.0.0.1", func(p *corev1.Pod) { p.Labels["tier"] = "" })
	for name, c := range map[string]struct {
		selector map[string]string
		want     bool
	}{
		"E-01 nil":                  {nil, false},
		"E-01 empty":                {map[string]string{}, true},
		"equal":                     {map[string]string{"app": "web"}, true},
		"empty value":               {map[string]string{"tier": ""}, true},
		"missing is not empty":      {map[string]string{"zone": ""}, false},
		"one of two":                {map[string]string{"app": "web", "tier": "x"}, false},
		"a value one edit away":     {map[string]string{"app": "wep"}, false},
		"another letter case is no": {map[string]string{"app": "Web"}, false},
	} {
		svc := newService(func(s *corev1.Service) { s.Spec.Selector = c.selector })
		if got := Matches(svc, pod); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
