package corefile

import (
	"maps"
	"slices"
	"time"

	"signpost/dnsserver"
)

// Cluster is the directive kubernetes: which names of the cluster are
// answered, and how the API server is reached.
type Cluster struct {
	Place

	// DNS is what the DNS server needs of it.
	DNS dnsserver.ClusterConfig
	API API
}

// API is how the API server is reached. Its zero value is the pod's own
// service account.
type API struct {
	Endpoint                      string
	CertFile, KeyFile, CAFile     string
	Kubeconfig, KubeconfigContext string
	QPS, Burst, MaxInFlight       int
}

// kubernetes reads "kubernetes [ZONE…] { … }" (dns-requirements §10).
func (b *builder) kubernetes(s *scan) {
	k := &Cluster{Place: s.place()}
	k.DNS.TTL = dnsserver.DefaultTTL
	k.DNS.Zones = s.zones(s.args)
	if len(s.args) == 0 {
		for _, a := range b.server.Addresses {
			k.DNS.Zones = append(k.DNS.Zones, a.Zone)
		}
	}
	options := map[string]func(*scan){
		"startup_timeout": func(o *scan) { k.DNS.StartupTimeout = o.duration(0, time.Hour) },
	}
	maps.Copy(options, answerOptions(&k.DNS))
	maps.Copy(options, filterOptions(&k.DNS))
	maps.Copy(options, k.API.options())
	s.options(options)
	k.check(s)
	b.server.Cluster = k
}

var podModes = map[string]dnsserver.PodMode{
	"disabled": dnsserver.PodsDisabled, "insecure": dnsserver.PodsInsecure, "verified": dnsserver.PodsVerified,
}

// answerOptions say what is answered.
func answerOptions(c *dnsserver.ClusterConfig) map[string]func(*scan) {
	options := map[string]func(*scan){
		"pods":               func(o *scan) { c.Pods = podModes[o.oneOf("disabled", "insecure", "verified")] },
		"ttl":                func(o *scan) { c.TTL = uint32(o.number(0, dnsserver.MaxTTL)) },
		"endpoint_pod_names": func(o *scan) { o.noArgs(); c.EndpointPodNames = true },
		"noendpoints":        func(o *scan) { o.noArgs(); c.NoEndpoints = true },
		"ignore":             func(o *scan) { o.oneOf("empty_service"); c.IgnoreEmptyService = true },
		"fallthrough":        func(o *scan) { c.Fallthrough = fallthroughZones(o) },
	}
	maps.Copy(options, laterOptions("zonal"))
	return options
}

// filterOptions say which objects count.
func filterOptions(c *dnsserver.ClusterConfig) map[string]func(*scan) {
	return map[string]func(*scan){
		"namespaces": func(o *scan) {
			if o.count(1, -1, "one or more namespaces") {
				c.Namespaces = o.args
			}
		},
		"namespace_labels": func(o *scan) { c.NamespaceLabels = o.selector() },
		"labels":           func(o *scan) { c.Labels = o.selector() },
		"multicluster":     func(o *scan) { c.Multicluster = o.zones(o.args) },
	}
}

// options say how the API server is reached.
func (a *API) options() map[string]func(*scan) {
	const most = 1_000_000
	return map[string]func(*scan){
		"endpoint": func(o *scan) { a.Endpoint = o.word("a URL") },
		"tls": func(o *scan) {
			if o.count(3, 3, "CERT KEY CACERT") {
				a.CertFile, a.KeyFile, a.CAFile = o.args[0], o.args[1], o.args[2]
			}
		},
		"kubeconfig": func(o *scan) {
			if o.count(1, 2, "FILE [CONTEXT]") {
				a.Kubeconfig, a.KubeconfigContext = o.args[0], append(o.args[1:], "")[0]
			}
		},
		"apiserver_qps":          func(o *scan) { a.QPS = o.number(1, most) },
		"apiserver_burst":        func(o *scan) { a.Burst = o.number(1, most) },
		"apiserver_max_inflight": func(o *scan) { a.MaxInFlight = o.number(1, most) },
	}
}

// check reports options that don't go together.
func (k *Cluster) check(s *scan) {
	if len(k.DNS.Namespaces) > 0 && k.DNS.NamespaceLabels != nil {
		s.errorf("namespaces and namespace_labels: must be one of the two")
	}
	for _, zone := range k.DNS.Multicluster {
		if !slices.Contains(k.DNS.Zones, zone) {
			s.errorf("multicluster %s: must be one of the zones of this directive", zone)
		}
	}
}

// fallthroughZones reads the zones; none stands for all.
func fallthroughZones(o *scan) []string {
	if len(o.args) == 0 {
		return []string{"."}
	}
	return o.zones(o.args)
}
