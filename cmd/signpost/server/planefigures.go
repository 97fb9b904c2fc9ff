package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"signpost/discovery"
	"signpost/vip"
)

// planeFigures are read from the dataplane at each scrape.
type planeFigures struct {
	server *Server

	lastQueued, noLocal, conntrackDeleted     *prometheus.Desc // kube-proxy's
	mode, frontends, conntrackFailed, checks  *prometheus.Desc
	failedChecks, desiredRevision, healthyNow *prometheus.Desc
}

func newPlaneFigures(s *Server) *planeFigures {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &planeFigures{
		server:           s,
		lastQueued:       describe("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "Since when there is something to write, or when the last round began."),
		noLocal:          describe("kubeproxy_sync_proxy_rules_no_local_endpoints_total", "Ports of services with a Local policy and without endpoints on this node.", "traffic_policy"),
		conntrackDeleted: describe("kubeproxy_conntrack_reconciler_deleted_entries_total", "Stale UDP connections deleted."),
		mode:             describe("signpost_vip_mode", "Always 1; the label is the dataplane's mode.", "mode"),
		frontends:        describe("signpost_vip_frontends", "Frontends in the dataplane."),
		conntrackFailed:  describe("signpost_conntrack_failures_total", "Passes over the UDP connections that failed."),
		checks:           describe("signpost_vip_healthcheck_ports", "Health-check node ports that are open."),
		failedChecks:     describe("signpost_vip_healthcheck_failed_listeners", "Listeners of health-check node ports that can't be opened at present."),
		desiredRevision:  describe("signpost_vip_planned_revision", "Revision of the desired snapshot that the last round planned."),
		healthyNow:       describe("signpost_vip_healthy", "1 while the dataplane keeps up."),
	}
}

// Describe implements [prometheus.Collector].
func (f *planeFigures) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		f.lastQueued, f.noLocal, f.conntrackDeleted, f.mode, f.frontends, f.conntrackFailed, f.checks,
		f.failedChecks, f.desiredRevision, f.healthyNow,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector]. Without a dataplane there is nothing.
func (f *planeFigures) Collect(out chan<- prometheus.Metric) {
	g := f.server.current.Load()
	if g == nil || g.plane == nil {
		return
	}
	p := g.plane
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	gauge(f.mode, 1, p.backend.Name())
	counter(f.conntrackDeleted, p.conntrack.Deleted.Load())
	counter(f.conntrackFailed, p.conntrack.Failed.Load())
	open, failed := p.health.Ports()
	gauge(f.checks, float64(open))
	gauge(f.failedChecks, float64(failed))
	f.rounds(p, gauge)
}

// rounds shows how far the controller is.
func (f *planeFigures) rounds(p *plane, gauge func(*prometheus.Desc, float64, ...string)) {
	health, status := p.controller.Health(), p.controller.Status()
	healthy := 0.0
	if health.Healthy {
		healthy = 1
	}
	gauge(f.healthyNow, healthy)
	queued := health.Pending
	if queued.IsZero() {
		queued = status.Updated
	}
	if !queued.IsZero() {
		gauge(f.lastQueued, seconds(queued))
	}
	if status.Applied != nil {
		gauge(f.frontends, float64(status.Applied.Len()))
	}
	if status.Desired != nil {
		gauge(f.desiredRevision, float64(status.Snapshot.Revision))
		internal, external := noLocalEndpoints(status.Desired)
		gauge(f.noLocal, float64(internal), "internal")
		gauge(f.noLocal, float64(external), "external")
	}
}

// noLocalEndpoints counts the ports of services whose traffic is dropped
// because no endpoint is on this node: a Local policy without a local endpoint,
// while there are some elsewhere (P-12).
func noLocalEndpoints(plan *vip.State) (internal, external int) {
	type portOf struct {
		owner discovery.Key
		name  string
	}
	counted := [2]map[portOf]bool{{}, {}}
	for v := range plan.All() {
		if r := v.Routes[vip.FromOutside]; r.Set != vip.LocalSet || r.Empty != vip.Drop || len(v.Local) > 0 {
			continue
		}
		where := 0
		if v.Kind.External() {
			where = 1
		}
		counted[where][portOf{v.Owner, v.PortName}] = true
	}
	return len(counted[0]), len(counted[1])
}
