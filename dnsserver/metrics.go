package dnsserver

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// droppedZone is the zone label of queries that no zone took, as in CoreDNS.
const droppedZone = "dropped"

// The reasons of signpost_dns_dropped_total.
const (
	dropJunk     = "junk"         // too short, or a response
	dropOverload = "overload"     // as many queries in flight as allowed
	dropSend     = "send"         // the reply couldn't be sent
	dropConns    = "connections"  // a TCP connection beyond the limits
	dropForged   = "forged_reply" // what came from an upstream wasn't the answer to our question
	// A record in an upstream's reply had nothing to do with the question.
	dropBailiwick = "bailiwick"
)

// metrics are the server's counters, a collector as a whole. They outlive
// reloads, so that a counter never goes back.
//
// Names and labels are CoreDNS's, which dashboards know; what CoreDNS doesn't
// have is called signpost_.
type metrics struct {
	inFlight     prometheus.Collector
	panics       prometheus.Counter
	drops        *prometheus.CounterVec
	dropChildren map[string]prometheus.Counter
	// rejects counts queries that forward refused for max_concurrent.
	rejects  prometheus.Counter
	upstream *prometheus.HistogramVec
	// healthBroken counts queries for which every upstream was down.
	healthBroken                         prometheus.Counter
	healthFailures, connHits, connMisses *prometheus.CounterVec
	links                                *linkMetrics

	mu     sync.Mutex
	blocks map[blockKey]*counters
	caches map[cacheMetricKey]*cacheCounters
	stores map[cacheMetricKey]*cacheStore
	// enabled are the directives that are on.
	enabled map[blockKey][]string
}

// blockKey names what is counted together.
type blockKey struct{ server, zone string }

func newMetrics(inFlight func() float64) *metrics {
	m := &metrics{
		inFlight: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "signpost_dns_queries_in_flight", Help: "Queries being answered.",
		}, inFlight),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coredns_panics_total", Help: "Panics while answering a query.",
		}),
		drops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signpost_dns_dropped_total", Help: "Packets, replies and connections dropped, by reason.",
		}, []string{"reason"}),
		rejects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coredns_forward_max_concurrent_rejects_total",
			Help: "Queries refused because too many were waiting for upstreams.",
		}),
		upstream: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "coredns_proxy_request_duration_seconds", Help: "Time that upstreams took to answer.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}, []string{"proxy_name", "to", "rcode"}),
		healthBroken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coredns_forward_healthcheck_broken_total", Help: "Queries for which every upstream was down.",
		}),
		healthFailures: upstreamCounter("healthcheck_failures_total", "Failed health checks.", "proxy_name", "to"),
		connHits:       upstreamCounter("conn_cache_hits_total", "Connections used again.", "proxy_name", "to", "proto"),
		connMisses:     upstreamCounter("conn_cache_misses_total", "Connections opened.", "proxy_name", "to", "proto"),

		links:        newLinkMetrics(),
		dropChildren: map[string]prometheus.Counter{},
		blocks:       map[blockKey]*counters{},
		caches:       map[cacheMetricKey]*cacheCounters{},
	}
	for _, reason := range []string{dropJunk, dropOverload, dropSend, dropConns, dropForged, dropBailiwick} {
		m.dropChildren[reason] = m.drops.WithLabelValues(reason)
	}
	return m
}

// upstreamCounter is a counter for each upstream.
func upstreamCounter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coredns_proxy_" + name, Help: help}, labels)
}

// dropped counts one thing dropped.
func (m *metrics) dropped(reason string) { m.dropChildren[reason].Inc() }

// block returns the counters of a zone at an address.
func (m *metrics) block(server, zone string) *counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := blockKey{server, zone}
	c := m.blocks[key]
	if c == nil {
		c = new(counters)
		m.blocks[key] = c
	}
	return c
}

// others are the collectors that keep their own numbers.
func (m *metrics) others() []prometheus.Collector {
	return append(m.links.all(), m.inFlight, m.panics, m.drops, m.rejects, m.upstream,
		m.healthBroken, m.healthFailures, m.connHits, m.connMisses)
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.others() {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{
		descRequests, descDO, descDuration, descRequestSize, descResponseSize, descResponses, descEnabled,
	} {
		ch <- d
	}
	for _, d := range cacheDescs() {
		ch <- d
	}
}

// Collect implements [prometheus.Collector]: the counters of all cores are
// added up here, not while answering.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.others() {
		c.Collect(ch)
	}
	m.mu.Lock()
	keys := make([]blockKey, 0, len(m.blocks))
	for key := range m.blocks {
		keys = append(keys, key)
	}
	m.mu.Unlock()
	slices.SortFunc(keys, func(a, b blockKey) int {
		return cmp.Or(cmp.Compare(a.server, b.server), cmp.Compare(a.zone, b.zone))
	})
	for _, key := range keys {
		total := m.block(key.server, key.zone).sum()
		total.emit(ch, key)
	}
	m.collectCaches(ch)
	m.collectEnabled(ch)
}

var (
	byZone = []string{"server", "zone", "view"}

	descRequests = prometheus.NewDesc("coredns_dns_requests_total", "DNS requests.",
		append(slices.Clone(byZone), "proto", "family", "type"), nil)
	descDO       = prometheus.NewDesc("coredns_dns_do_requests_total", "DNS requests with DO set.", byZone, nil)
	descDuration = prometheus.NewDesc("coredns_dns_request_duration_seconds", "Time taken to answer.",
		append(slices.Clone(byZone), "type"), nil)
	descRequestSize = prometheus.NewDesc("coredns_dns_request_size_bytes", "Size of requests.",
		append(slices.Clone(byZone), "proto"), nil)
	descResponseSize = prometheus.NewDesc("coredns_dns_response_size_bytes", "Size of responses.",
		append(slices.Clone(byZone), "proto"), nil)
	descResponses = prometheus.NewDesc("coredns_dns_responses_total", "DNS responses, by rcode and by who answered.",
		append(slices.Clone(byZone), "rcode", "plugin"), nil)
)

// emit turns sums into metrics; the label view is empty, there are none.
func (t *tally) emit(ch chan<- prometheus.Metric, key blockKey) {
	labels := func(more ...string) []string { return append([]string{key.server, key.zone, ""}, more...) }
	count := func(d *prometheus.Desc, n uint64, more ...string) {
		if n > 0 {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels(more...)...)
		}
	}
	count(descDO, t.do)
	for p := range numProtos {
		for family := range t.requests[p] {
			for i, n := range t.requests[p][family] {
				count(descRequests, n, p.String(), strconv.Itoa(family+1), typeLabel(i))
			}
		}
		t.requestSize[p].emit(ch, descRequestSize, sizeBuckets[:], labels(p.String()))
		t.responseSize[p].emit(ch, descResponseSize, sizeBuckets[:], labels(p.String()))
	}
	for i := range t.duration {
		t.duration[i].emit(ch, descDuration, timeBuckets[:], labels(typeLabel(i)))
	}
	for who := range t.responses {
		for rcode, n := range t.responses[who] {
			count(descResponses, n, rcodeLabel(rcode), answerer(who).String())
		}
	}
}

// rcodeLabel is the name of an rcode, its number if it has none.
func rcodeLabel(rcode int) string {
	if name, ok := dns.RcodeToString[rcode]; ok {
		return name
	}
	return strconv.Itoa(rcode)
}
