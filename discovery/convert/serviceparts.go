package convert

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"signpost/discovery"
)

const notAnAddress = "must be a valid IP address"

// addresses fills in the cluster, external and load-balancer addresses.
func (w *warnings) addresses(svc *corev1.Service, s *discovery.Service) {
	if s.Kind == discovery.ClusterIP {
		s.ClusterIPs = w.clusterIPs(svc)
	}
	s.ExternalIPs = w.addrs(externalIPsPath, svc.Spec.ExternalIPs)
	w.ingress(svc, s)
}

// clusterIPs reads the list, or the single field where there is no list
// (dns-requirements S3).
func (w *warnings) clusterIPs(svc *corev1.Service) []netip.Addr {
	texts := svc.Spec.ClusterIPs
	if len(texts) == 0 && svc.Spec.ClusterIP != "" {
		texts = []string{svc.Spec.ClusterIP}
	}
	return w.addrs(clusterIPsPath, texts)
}

// addrs parses a list of addresses; doubles count once.
func (w *warnings) addrs(path *field.Path, texts []string) []netip.Addr {
	if len(texts) == 0 {
		return nil
	}
	parsed := make([]netip.Addr, 0, len(texts))
	for i, text := range texts {
		a, ok := parseAddr(text)
		switch {
		case !ok:
			w.invalid(path.Index(i), text, notAnAddress)
		case !slices.Contains(parsed, a):
			parsed = append(parsed, a)
		}
	}
	return parsed
}

// ingress reads the load balancer's status. Only addresses of mode VIP are
// programmed; the others belong to a load balancer that wants the traffic for
// itself (P-17).
func (w *warnings) ingress(svc *corev1.Service, s *discovery.Service) {
	points, path := svc.Status.LoadBalancer.Ingress, ingressPath
	if len(points) > 0 && s.Type != discovery.TypeLoadBalancer {
		w.invalid(path, len(points), "may only be used when `type` is 'LoadBalancer', ignored")
		return
	}
	for i, point := range points {
		if point.IP == "" {
			if point.Hostname != "" {
				s.Ingress = append(s.Ingress, point.Hostname)
			}
			continue
		}
		a, ok := parseAddr(point.IP)
		if !ok {
			w.invalid(path.Index(i).Child("ip"), point.IP, notAnAddress)
			continue
		}
		s.Ingress = append(s.Ingress, a.String())
		if programmed := point.IPMode == nil || *point.IPMode == corev1.LoadBalancerIPModeVIP; programmed && !slices.Contains(s.LoadBalancerIPs, a) {
			s.LoadBalancerIPs = append(s.LoadBalancerIPs, a)
		}
	}
}

func (w *warnings) externalName(svc *corev1.Service) string {
	name := strings.TrimSuffix(svc.Spec.ExternalName, ".")
	if name == "" {
		w.invalid(specPath.Child("externalName"), svc.Spec.ExternalName, "must be a DNS name")
	}
	return name
}

// ports converts the usable ports; of two with one number and protocol the
// first counts.
func (w *warnings) ports(svc *corev1.Service) []discovery.Port {
	if len(svc.Spec.Ports) == 0 {
		return nil
	}
	made := make([]discovery.Port, 0, len(svc.Spec.Ports))
	for i := range svc.Spec.Ports {
		path := func() *field.Path { return specPath.Child("ports").Index(i) }
		p, ok := w.port(&svc.Spec.Ports[i], path)
		if !ok {
			continue
		}
		if slices.ContainsFunc(made, func(o discovery.Port) bool { return o.Port == p.Port && o.Protocol == p.Protocol }) {
			w.invalid(path(), portID(p.Port, p.Protocol.String()), "stands here twice, ignored")
			continue
		}
		if !needsNodePorts(svc.Spec.Type) {
			p.NodePort = 0
		}
		made = append(made, p)
	}
	return made
}

func (w *warnings) port(from *corev1.ServicePort, path func() *field.Path) (discovery.Port, bool) {
	protocol, err := discovery.ParseProtocol(string(from.Protocol))
	if err != nil {
		w.invalid(path().Child("protocol"), from.Protocol, "unknown protocol, the port is ignored")
		return discovery.Port{}, false
	}
	if !isPort(from.Port) {
		w.invalid(path().Child("port"), from.Port, outOfPorts+", the port is ignored")
		return discovery.Port{}, false
	}
	p := discovery.Port{Name: from.Name, Protocol: protocol, Port: uint16(from.Port), TargetPort: from.TargetPort.String()}
	if p.TargetPort == "0" || p.TargetPort == "" {
		p.TargetPort = portText(from.Port)
	}
	switch {
	case isPort(from.NodePort):
		p.NodePort = uint16(from.NodePort)
	case from.NodePort != 0:
		w.invalid(path().Child("nodePort"), from.NodePort, outOfPorts+", ignored")
	}
	return p, true
}

// traffic fills in the policies, the affinity and the source ranges.
func (w *warnings) traffic(svc *corev1.Service, s *discovery.Service) {
	spec := &svc.Spec
	if spec.InternalTrafficPolicy != nil {
		s.InternalPolicy = w.policy("internalTrafficPolicy", string(*spec.InternalTrafficPolicy))
	}
	s.ExternalPolicy = w.policy("externalTrafficPolicy", string(spec.ExternalTrafficPolicy))
	s.Affinity = w.affinity(spec)
	s.SourceRanges = w.prefixes(sourceRangesPath, spec.LoadBalancerSourceRanges)
	s.SourceRangesSet = len(spec.LoadBalancerSourceRanges) > 0
	if needsHealthCheck(svc) {
		if isPort(spec.HealthCheckNodePort) {
			s.HealthCheckNodePort = uint16(spec.HealthCheckNodePort)
		} else if spec.HealthCheckNodePort != 0 {
			w.invalid(specPath.Child("healthCheckNodePort"), spec.HealthCheckNodePort, outOfPorts+", ignored")
		}
	}
}

func (w *warnings) policy(name, value string) discovery.TrafficPolicy {
	switch value {
	case "Local":
		return discovery.PolicyLocal
	case "Cluster", "":
		return discovery.PolicyCluster
	default:
		w.invalid(specPath.Child(name), value, "unknown policy, taken as Cluster")
		return discovery.PolicyCluster
	}
}

// affinity reads the session affinity. A missing or impossible timeout is the
// API's default (P-16).
func (w *warnings) affinity(spec *corev1.ServiceSpec) discovery.Affinity {
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		if spec.SessionAffinity != "" && spec.SessionAffinity != corev1.ServiceAffinityNone {
			w.invalid(specPath.Child("sessionAffinity"), spec.SessionAffinity, "unknown affinity, taken as None")
		}
		return discovery.Affinity{}
	}
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if given := affinityTimeout(spec); given != nil {
		if isAffinityTimeout(*given) {
			seconds = *given
		} else {
			w.invalid(specPath.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds"), *given,
				"must be between 1 and 86400, taken as 10800")
		}
	}
	return discovery.Affinity{ClientIP: true, Timeout: time.Duration(seconds) * time.Second}
}

func affinityTimeout(spec *corev1.ServiceSpec) *int32 {
	if c := spec.SessionAffinityConfig; c != nil && c.ClientIP != nil {
		return c.ClientIP.TimeoutSeconds
	}
	return nil
}

func isAffinityTimeout(seconds int32) bool {
	return seconds >= 1 && seconds <= maxAffinitySeconds
}

func (w *warnings) prefixes(path *field.Path, texts []string) []netip.Prefix {
	var parsed []netip.Prefix
	for i, text := range texts {
		if p, ok := parsePrefix(text); ok {
			parsed = append(parsed, p)
		} else {
			w.invalid(path.Index(i), text, "must be a valid CIDR; what it should allow stays closed")
		}
	}
	return parsed
}
