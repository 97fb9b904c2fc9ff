package corefile

import (
	"math"
	"time"

	"signpost/vip/sysctl"
)

// policyOptions are the options about which services are ours and what is
// refused. Their names are those of kube-proxy's flags and labels, where it has
// such a thing.
func policyOptions(v *VIP) map[string]func(*scan) {
	return map[string]func(*scan){
		"detect_local_mode": func(o *scan) { v.detectLocal(o) },
		"service_proxy_name": func(o *scan) {
			v.Policy.ProxyName = o.word("a value of the label service.kubernetes.io/service-proxy-name")
		},
		"external_ip_ranges":     func(o *scan) { v.Policy.AllowExternalIPs = o.prefixes(1, -1, "one or more networks") },
		"unusable_source_ranges": func(o *scan) { v.Policy.OpenUnusableRanges = o.oneOf("closed", "open") == "open" },
	}
}

// ipvsOptions are kube-proxy's --ipvs-strict-arp, kube-router's graceful period
// and the schedulers' flags.
func ipvsOptions(v *IPVS) map[string]func(*scan) {
	return map[string]func(*scan){
		"strict_arp":      func(o *scan) { o.noArgs(); v.StrictARP = true },
		"scheduler_flags": func(o *scan) { v.Flags = o.someOf("sh-fallback", "sh-port", "mh-fallback", "mh-port") },
		"drain": func(o *scan) {
			if v.Drain = o.duration(0, longest); v.Drain == 0 {
				v.Drain = -1
			}
		},
	}
}

// detectLocal reads kube-proxy's word for how pods are told from others. Only
// NodeCIDR says something that the other options don't say.
func (v *VIP) detectLocal(o *scan) {
	v.PodCIDRsFromNode = o.oneOf("ClusterCIDR", "NodeCIDR", "InterfaceNamePrefix") == "NodeCIDR"
}

// checkDetector reports options about who is a pod that contradict each other.
func (v *VIP) checkDetector(s *scan) {
	if v.PodCIDRsFromNode && len(v.ClusterCIDRs) > 0 {
		s.errorf("detect_local_mode NodeCIDR: the pods' networks then come from the Node object: remove cluster_cidr")
	}
}

// conntrackOptions are kube-proxy's --conntrack-… flags. Zero leaves the
// kernel's setting as it is.
func conntrackOptions(l *sysctl.ConntrackLimits) map[string]func(*scan) {
	number := func(to *int) func(*scan) {
		return func(o *scan) { *to = o.number(0, math.MaxInt32) }
	}
	span := func(to *time.Duration) func(*scan) {
		return func(o *scan) { *to = o.duration(0, math.MaxInt32*time.Second) }
	}
	return map[string]func(*scan){
		"conntrack_max_per_core":            number(&l.MaxPerCPU),
		"conntrack_min":                     number(&l.Min),
		"conntrack_tcp_timeout_established": span(&l.Established),
		"conntrack_tcp_timeout_close_wait":  span(&l.CloseWait),
		"conntrack_tcp_be_liberal":          func(o *scan) { o.noArgs(); l.BeLiberal = true },
		"conntrack_udp_timeout":             span(&l.UDP),
		"conntrack_udp_timeout_stream":      span(&l.UDPStream),
	}
}
