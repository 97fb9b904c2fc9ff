package convert

import corev1 "k8s.io/api/core/v1"

// defaultPod fills in what signpost reads of a pod: addresses, container ports
// and readiness probes.
func defaultPod(p *corev1.Pod) {
	defaultPodIPs(&p.Status)
	for i := range p.Spec.InitContainers {
		defaultContainer(&p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		defaultContainer(&p.Spec.Containers[i])
	}
}

// defaultPodIPs lets the single field and the list say the same. The single
// field wins, as it does for an API server.
func defaultPodIPs(s *corev1.PodStatus) {
	switch {
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
}

func defaultContainer(c *corev1.Container) {
	for i := range c.Ports {
		setIfEmpty(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	if c.ReadinessProbe != nil {
		defaultProbe(c.ReadinessProbe)
	}
}

func defaultProbe(p *corev1.Probe) {
	setIfZero(&p.TimeoutSeconds, 1)
	setIfZero(&p.PeriodSeconds, 10)
	setIfZero(&p.SuccessThreshold, 1)
	setIfZero(&p.FailureThreshold, 3)
	if p.HTTPGet != nil {
		setIfEmpty(&p.HTTPGet.Path, "/")
		setIfEmpty(&p.HTTPGet.Scheme, corev1.URISchemeHTTP)
	}
	if p.GRPC != nil {
		setIfNil(&p.GRPC.Service, "")
	}
}

// defaultNode lets the single pod CIDR and the list say the same.
func defaultNode(n *corev1.Node) {
	switch {
	case n.Spec.PodCIDR == "" && len(n.Spec.PodCIDRs) > 0:
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	case n.Spec.PodCIDR != "" && (len(n.Spec.PodCIDRs) == 0 || n.Spec.PodCIDRs[0] != n.Spec.PodCIDR):
		n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
	}
}

func setIfZero(p *int32, fallback int32) {
	if *p == 0 {
		*p = fallback
	}
}
