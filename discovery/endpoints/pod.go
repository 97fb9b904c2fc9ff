package endpoints

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Matches tells whether the service selects the pod: it is of the same
// namespace and has every label of the selector. A nil selector selects
// nothing, an empty one every pod of the namespace (E-01).
func Matches(svc *corev1.Service, pod *corev1.Pod) bool {
	if svc == nil || pod == nil || svc.Spec.Selector == nil || svc.Namespace != pod.Namespace {
		return false
	}
	for label, want := range svc.Spec.Selector {
		if got, exists := pod.Labels[label]; !exists || got != want {
			return false
		}
	}
	return true
}

// managed tells whether the controllers make anything for the service: it has
// a selector and is no alias (E-01, B73).
func managed(svc *corev1.Service) bool {
	return svc != nil && svc.Spec.Selector != nil && svc.Spec.Type != corev1.ServiceTypeExternalName
}

func headless(svc *corev1.Service) bool { return svc.Spec.ClusterIP == corev1.ClusterIPNone }

// selected returns the pods that the service selects and that can be
// endpoints at all, by name.
func selected(svc *corev1.Service, pods []*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range pods {
		if Matches(svc, pod) && !finished(pod) {
			out = append(out, pod)
		}
	}
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// finished pods never come back: they are no endpoints even where pods that
// are not ready are published (E-02, B71).
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func terminating(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func ready(pod *corev1.Pod) bool {
	c := readyCondition(pod)
	return c != nil && c.Status == corev1.ConditionTrue
}

// families returns the address families that the service has endpoints of,
// primary first: those of its spec, else those of its cluster IPs, else IPv4.
func families(svc *corev1.Service) []discoveryv1.AddressType {
	var out []discoveryv1.AddressType
	add := func(t discoveryv1.AddressType) {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	for _, f := range svc.Spec.IPFamilies {
		switch f {
		case corev1.IPv6Protocol:
			add(discoveryv1.AddressTypeIPv6)
		case corev1.IPv4Protocol:
			add(discoveryv1.AddressTypeIPv4)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, ip := range append([]string{svc.Spec.ClusterIP}, svc.Spec.ClusterIPs...) {
		if a, ok := parseAddr(ip); ok {
			add(familyOf(a))
		}
	}
	if len(out) == 0 {
		add(discoveryv1.AddressTypeIPv4)
	}
	return out
}

func familyOf(a netip.Addr) discoveryv1.AddressType {
	if a.Is4() {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

// podAddr returns the pod's first address of the family.
func podAddr(pod *corev1.Pod, family discoveryv1.AddressType) (netip.Addr, bool) {
	for _, ip := range pod.Status.PodIPs {
		if a, ok := parseAddr(ip.IP); ok && familyOf(a) == family {
			return a, true
		}
	}
	if a, ok := parseAddr(pod.Status.PodIP); ok && familyOf(a) == family {
		return a, true
	}
	return netip.Addr{}, false
}

// parseAddr reads an address leniently, as the API once did (leading zeros in
// IPv4, IPv4-mapped IPv6), and returns it in canonical form (P-09).
func parseAddr(text string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap(), a.Zone() == ""
	}
	octets := strings.Split(text, ".")
	for i, o := range octets {
		if trimmed := strings.TrimLeft(o, "0"); trimmed != "" {
			octets[i] = trimmed
		} else if o != "" {
			octets[i] = "0"
		}
	}
	a, err := netip.ParseAddr(strings.Join(octets, "."))
	return a, err == nil && a.Is4()
}

// hostname is the name that DNS gives to the pod under the service (E-07).
func hostname(svc *corev1.Service, pod *corev1.Pod) string {
	if pod.Spec.Subdomain == svc.Name && pod.Namespace == svc.Namespace {
		return pod.Spec.Hostname
	}
	return ""
}

func podRef(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
