package kube

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// intern returns the one copy of a text that many objects have in common:
// namespaces, nodes, zones, labels. The table holds it weakly.
func intern(text string) string { return unique.Make(text).Value() }

func internPointer(text *string) {
	if text != nil {
		*text = intern(*text)
	}
}

func internMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	shared := make(map[string]string, len(m))
	for k, v := range m {
		shared[intern(k)] = intern(v)
	}
	return shared
}

func internService(s *corev1.Service) {
	s.Namespace = intern(s.Namespace)
	s.Labels, s.Spec.Selector = internMap(s.Labels), internMap(s.Spec.Selector)
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].Name = intern(s.Spec.Ports[i].Name)
	}
}

func internSlice(s *discoveryv1.EndpointSlice) {
	s.Namespace = intern(s.Namespace)
	for i := range s.Ports {
		internPointer(s.Ports[i].Name)
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		internPointer(e.NodeName)
		internPointer(e.Zone)
		if e.TargetRef != nil {
			e.TargetRef.Kind, e.TargetRef.Namespace = intern(e.TargetRef.Kind), intern(e.TargetRef.Namespace)
		}
		internHints(e.Hints)
	}
}

func internHints(h *discoveryv1.EndpointHints) {
	if h == nil {
		return
	}
	for i := range h.ForZones {
		h.ForZones[i].Name = intern(h.ForZones[i].Name)
	}
	for i := range h.ForNodes {
		h.ForNodes[i].Name = intern(h.ForNodes[i].Name)
	}
}

func internPod(p *corev1.Pod) {
	p.Namespace, p.Spec.NodeName = intern(p.Namespace), intern(p.Spec.NodeName)
	p.Status.Phase = corev1.PodPhase(intern(string(p.Status.Phase)))
	p.Labels = internMap(p.Labels)
}
