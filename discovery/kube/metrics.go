package kube

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the figures of the source. One set can serve several sources, one
// after the other. A nil *Metrics counts nothing.
type Metrics struct {
	programming *prometheus.HistogramVec
	requests    *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	failures    *prometheus.CounterVec
	connected   *prometheus.GaugeVec
}

// NewMetrics registers the figures; those that CoreDNS has too bear its names.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		programming: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coredns_kubernetes_dns_programming_duration_seconds",
			Help:    "Time from a change of a pod or service to its being answered, where the endpoints tell when it was.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 20),
		}, []string{"service_kind"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coredns_kubernetes_rest_client_requests_total", Help: "Requests to the API server.",
		}, []string{"method", "code", "host"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coredns_kubernetes_rest_client_request_duration_seconds",
			Help:    "Time until the API server's answer begins.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60},
		}, []string{"verb", "host"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signpost_kubernetes_failures_total", Help: "Failed attempts to list or watch, by resource.",
		}, []string{"resource"}),
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "signpost_kubernetes_connected", Help: "1 while the resource is followed, 0 while that fails.",
		}, []string{"resource"}),
	}
	registerer.MustRegister(m.programming, m.requests, m.durations, m.failures, m.connected)
	return m
}

// programmed notes how long a change of a headless service with a selector
// took. Only there the answers follow from endpoints that a controller made,
// which is why CoreDNS measures no other.
func (m *Metrics) programmed(took time.Duration) {
	if m != nil {
		m.programming.WithLabelValues("headless_with_selector").Observe(max(took, 0).Seconds())
	}
}

func (m *Metrics) failed(resource string) {
	if m != nil {
		m.failures.WithLabelValues(resource).Inc()
		m.connected.WithLabelValues(resource).Set(0)
	}
}

// lacking takes away the figure of a kind that the server doesn't have: it is
// neither followed nor failing.
func (m *Metrics) lacking(resource string) {
	if m != nil {
		m.connected.DeleteLabelValues(resource)
	}
}

func (m *Metrics) recovered(resource string) {
	if m != nil {
		m.connected.WithLabelValues(resource).Set(1)
	}
}

// measured counts the requests that go through a transport.
type measured struct {
	metrics *Metrics
	next    http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *measured) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	answer, err := t.next.RoundTrip(r)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(answer.StatusCode)
	}
	t.metrics.requests.WithLabelValues(r.Method, code, r.URL.Host).Inc()
	t.metrics.durations.WithLabelValues(r.Method, r.URL.Host).Observe(time.Since(start).Seconds())
	return answer, err //nolint:wrapcheck // a transport adds nothing
}
