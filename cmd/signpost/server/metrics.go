package server

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"signpost/discovery/kube"
	"signpost/vip"
)

// metrics are the figures of the process and of the dataplane. Those of DNS
// are the DNS server's.
type metrics struct {
	rounds    *prometheus.CounterVec
	failed    prometheus.Gauge
	kubeproxy *kubeproxy
	kube      *kube.Metrics
}

var _ vip.Observer = (*metrics)(nil)

func newMetrics(registry *prometheus.Registry, s *Server, version string) *metrics {
	m := &metrics{
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signpost_vip_rounds_total", Help: "Rounds of the dataplane's loop, by reason and result.",
		}, []string{"reason", "result"}),
		failed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "signpost_vip_failed_frontends", Help: "Frontends that can't be programmed at present.",
		}),
		kubeproxy: newKubeproxy(registry),
		kube:      kube.NewMetrics(registry),
	}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "signpost_build_info", Help: "Always 1; the labels tell the build.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, coreDNSBuild(version), m.rounds, m.failed, snapshotFigures(s), newPlaneFigures(s))
	return m
}

// coreDNSBuild is the build under the name and the labels that CoreDNS's
// dashboards count servers by; the version is signpost's.
func coreDNSBuild(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "coredns_build_info", Help: "Always 1; the labels tell the build.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision(), "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}

// revision is the commit that the program was built from, as far as it knows.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return ""
}

// Observe implements [vip.Observer].
func (m *metrics) Observe(r vip.Round) {
	result := "success"
	switch {
	case r.Err != nil:
		result = "failure"
	case r.Failed > 0:
		result = "partial"
	}
	m.rounds.WithLabelValues(r.Reason.String(), result).Inc()
	m.failed.Set(float64(r.Failed))
	m.kubeproxy.observe(r)
}

// figures reads the present snapshot at each scrape.
type figures struct {
	server                                  *Server
	revision, synced, services, pods, nodes *prometheus.Desc
}

func snapshotFigures(s *Server) *figures {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("signpost_"+name, help, nil, nil)
	}
	return &figures{
		server:   s,
		revision: describe("revision", "Revision of the desired snapshot."),
		synced:   describe("synced", "1 once the source has delivered everything."),
		services: describe("services", "Services in the desired snapshot."),
		pods:     describe("pods", "Pods in the desired snapshot."),
		nodes:    describe("nodes", "Nodes in the desired snapshot."),
	}
}

// Describe implements [prometheus.Collector].
func (f *figures) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.revision, f.synced, f.services, f.pods, f.nodes} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (f *figures) Collect(out chan<- prometheus.Metric) {
	g := f.server.current.Load()
	if g == nil {
		return // starting
	}
	snapshot := g.source.store.Current()
	synced := 0
	if snapshot.Synced {
		synced = 1
	}
	values := map[*prometheus.Desc]int{
		f.revision: int(snapshot.Revision), f.synced: synced, f.services: snapshot.Services.Len(),
		f.pods: snapshot.Pods.Len(), f.nodes: len(snapshot.Nodes),
	}
	for d, v := range values {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
}
