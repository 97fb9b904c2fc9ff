package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signpost/vip"
)

// kubeproxy are kube-proxy's metrics, with its names, labels and buckets, as
// far as they mean something here (L-06); docs/metrics.md lists the others. A
// round is for both address families: there is no label ip_family.
type kubeproxy struct {
	sync, full, partial  prometheus.Histogram
	lastSync             prometheus.Gauge
	programmed           prometheus.Histogram
	services, slices     prometheus.Counter
	pendingServices      prometheus.Gauge
	pendingSlices        prometheus.Gauge
	nftablesFailures     prometheus.Counter
	iptablesFailures     prometheus.Counter
	iptablesPartFailures prometheus.Counter
	reconciled           prometheus.Histogram
	healthz, livez       *prometheus.CounterVec
}

func newKubeproxy(registry *prometheus.Registry) *kubeproxy {
	f := family{registry}
	fast, programming := prometheus.ExponentialBuckets(0.001, 2, 15), programmingBuckets()
	return &kubeproxy{
		sync:                 f.histogram("sync_proxy_rules_duration_seconds", "How long a round took that wrote to the dataplane.", fast),
		full:                 f.histogram("sync_full_proxy_rules_duration_seconds", "How long a round took that looked at the whole dataplane.", fast),
		partial:              f.histogram("sync_partial_proxy_rules_duration_seconds", "How long a round took that wrote a change only.", fast),
		lastSync:             f.gauge("sync_proxy_rules_last_timestamp_seconds", "When a round last succeeded."),
		programmed:           f.histogram("network_programming_duration_seconds", "From a change of endpoints to the rules for it.", programming),
		services:             f.counter("sync_proxy_rules_service_changes_total", "Changes of services that came into the dataplane."),
		slices:               f.counter("sync_proxy_rules_endpoint_changes_total", "Changes of endpoint slices that came into the dataplane."),
		pendingServices:      f.gauge("sync_proxy_rules_service_changes_pending", "Changes of services that are not in the dataplane yet."),
		pendingSlices:        f.gauge("sync_proxy_rules_endpoint_changes_pending", "Changes of endpoint slices that are not in the dataplane yet."),
		nftablesFailures:     f.counter("sync_proxy_rules_nftables_sync_failures_total", "Rounds of mode nftables that failed, as a whole or in part."),
		iptablesFailures:     f.counter("sync_proxy_rules_iptables_restore_failures_total", "Rounds of mode iptables that failed, as a whole or in part."),
		iptablesPartFailures: f.counter("sync_proxy_rules_iptables_partial_restore_failures_total", "The same, of rounds that wrote a change only."),
		reconciled:           f.histogram("conntrack_reconciler_sync_duration_seconds", "How long it took to find and delete stale UDP connections.", fast),
		healthz:              f.codes("proxy_healthz_total", "Answers of /healthz, by status."),
		livez:                f.codes("proxy_livez_total", "Answers of /livez, by status."),
	}
}

// family makes and registers metrics of one prefix.
type family struct{ registry *prometheus.Registry }

const kubeproxyPrefix = "kubeproxy_"

func (f family) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: kubeproxyPrefix + name, Help: help, Buckets: buckets})
	f.registry.MustRegister(h)
	return h
}

func (f family) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: kubeproxyPrefix + name, Help: help})
	f.registry.MustRegister(g)
	return g
}

func (f family) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: kubeproxyPrefix + name, Help: help})
	f.registry.MustRegister(c)
	return c
}

func (f family) codes(name, help string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: kubeproxyPrefix + name, Help: help}, []string{"code"})
	f.registry.MustRegister(c)
	return c
}

// programmingBuckets are kube-proxy's: 0.25 s, each second to a minute, 5 s
// steps to two minutes, 30 s steps to five.
func programmingBuckets() []float64 {
	buckets := []float64{0.25, 0.5}
	buckets = append(buckets, prometheus.LinearBuckets(1, 1, 59)...)
	buckets = append(buckets, prometheus.LinearBuckets(60, 5, 12)...)
	return append(buckets, prometheus.LinearBuckets(120, 30, 7)...)
}

// observe counts a round.
func (k *kubeproxy) observe(r vip.Round) {
	k.pendingServices.Set(float64(r.PendingServices))
	k.pendingSlices.Set(float64(r.PendingSlices))
	k.services.Add(float64(r.Services))
	k.slices.Add(float64(r.Slices))
	if r.Idle {
		return
	}
	took := r.Duration.Seconds()
	k.sync.Observe(took)
	if r.Look {
		k.full.Observe(took)
	} else {
		k.partial.Observe(took)
	}
	end := r.Start.Add(r.Duration)
	if r.Err == nil {
		k.lastSync.Set(seconds(end))
	}
	for _, trigger := range r.Triggers {
		k.programmed.Observe(max(0, end.Sub(trigger).Seconds())) // clocks differ (L-07)
	}
}

// failed counts a round that failed, as a whole or in part.
func (k *kubeproxy) failed(mode string, r vip.Round) {
	switch mode {
	case "nftables":
		k.nftablesFailures.Inc()
	case "iptables":
		k.iptablesFailures.Inc()
		if !r.Look {
			k.iptablesPartFailures.Inc()
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// modeObserver adds what depends on the mode.
type modeObserver struct {
	*metrics
	mode string
}

func (m *metrics) forMode(mode string) vip.Observer { return modeObserver{m, mode} }

// Observe implements [vip.Observer].
func (o modeObserver) Observe(r vip.Round) {
	o.metrics.Observe(r)
	if r.Err != nil || (r.Failed > 0 && !r.Idle) {
		o.kubeproxy.failed(o.mode, r)
	}
}
