package dnsserver

import "github.com/prometheus/client_golang/prometheus"

// linkMetrics are the counters of single links of the chain, with CoreDNS's
// names and labels.
type linkMetrics struct {
	local                                           prometheus.Counter
	aclAllowed, aclBlocked, aclFiltered, aclDropped *prometheus.CounterVec
	dns64, autopath                                 *prometheus.CounterVec
	templateMatches                                 *prometheus.CounterVec
	templateFailures, rrFailures                    *prometheus.CounterVec
	hostsEntries, hostsReload                       prometheus.Gauge
	limited                                         *prometheus.CounterVec
}

func newLinkMetrics() *linkMetrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return &linkMetrics{
		local: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coredns_local_localhost_requests_total", Help: "Queries for localhost with a domain.",
		}),
		aclAllowed:  vec("coredns_acl_allowed_requests_total", "Queries that acl let through.", "server", "view"),
		aclBlocked:  vec("coredns_acl_blocked_requests_total", "Queries that acl refused.", byZone...),
		aclFiltered: vec("coredns_acl_filtered_requests_total", "Queries that acl answered without data.", byZone...),
		aclDropped:  vec("coredns_acl_dropped_requests_total", "Queries that acl didn't answer.", byZone...),
		dns64:       vec("coredns_dns64_requests_translated_total", "Queries answered with addresses made of IPv4 ones.", "server"),
		autopath:    vec("coredns_autopath_success_total", "Queries answered further along the search path.", "server"),
		templateMatches: vec("coredns_template_matches_total", "Queries that a template was for.",
			"server", "zone", "view", "class", "type"),
		templateFailures: vec("coredns_template_template_failures_total", "Templates that failed.",
			"server", "zone", "view", "class", "type", "section", "template"),
		rrFailures: vec("coredns_template_rr_failures_total", "Templates whose result is no record.",
			"server", "zone", "view", "class", "type", "section", "template"),
		hostsEntries: gauge("coredns_hosts_entries", "Names and addresses in hosts files and Corefiles."),
		hostsReload:  gauge("coredns_hosts_reload_timestamp_seconds", "When a hosts file was last read."),
		limited: vec("signpost_dns_rate_limited_total", "Replies and queries beyond a rate limit, by what was done.",
			"server", "action"),
	}
}

// all lists the collectors.
func (m *linkMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.local, m.aclAllowed, m.aclBlocked, m.aclFiltered, m.aclDropped, m.dns64, m.autopath,
		m.templateMatches, m.templateFailures, m.rrFailures, m.hostsEntries, m.hostsReload, m.limited,
	}
}
