package server

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"signpost/vip"
	"signpost/vip/viptest"
)

// TestKubeproxyMetrics is L-06 and L-07: what a round means in kube-proxy's words.
func TestKubeproxyMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, &Server{}, "test")
	start := time.Unix(1000, 0)
	nft, ipt := m.forMode("nftables"), m.forMode("iptables")
	nft.Observe(vip.Round{Reason: vip.ReasonStart, Look: true, Start: start, Duration: time.Second, Services: 2, Slices: 3})
	nft.Observe(vip.Round{Reason: vip.ReasonChange, Start: start, Duration: time.Millisecond, Err: errors.New("x"), PendingServices: 1, PendingSlices: 4})
	nft.Observe(vip.Round{Reason: vip.ReasonRetry, Look: true, Start: start, Duration: time.Millisecond, Failed: 1})
	ipt.Observe(vip.Round{Reason: vip.ReasonChange, Start: start, Duration: time.Millisecond, Failed: 1})
	ipt.Observe(vip.Round{Reason: vip.ReasonChange, Start: start, Idle: true, Failed: 1})
	// L-07, X12: a clock ahead of ours must not make a latency negative.
	nft.Observe(vip.Round{Reason: vip.ReasonChange, Start: start, Duration: time.Second, Triggers: []time.Time{start.Add(time.Hour), start.Add(-time.Second)}})
	for name, want := range map[string]float64{
		"kubeproxy_sync_proxy_rules_nftables_sync_failures_total":                2,
		"kubeproxy_sync_proxy_rules_iptables_restore_failures_total":             1,
		"kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total":     1,
		"kubeproxy_sync_proxy_rules_service_changes_total":                       2,
		"kubeproxy_sync_proxy_rules_endpoint_changes_total":                      3,
		"kubeproxy_sync_proxy_rules_service_changes_pending":                     0,
		"kubeproxy_sync_proxy_rules_endpoint_changes_pending":                    0,
		"kubeproxy_sync_proxy_rules_last_timestamp_seconds":                      1001,
		"kubeproxy_sync_proxy_rules_duration_seconds_count":                      5,
		"kubeproxy_sync_full_proxy_rules_duration_seconds_count":                 2,
		"kubeproxy_sync_partial_proxy_rules_duration_seconds_count":              3,
		"kubeproxy_network_programming_duration_seconds_sum":                     2,
		`kubeproxy_network_programming_duration_seconds_bucket{le="0.25"}`:       1,
		`kubeproxy_network_programming_duration_seconds_bucket{le="2"}`:          2,
		`kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="16.384"}`:        5,
		`kubeproxy_network_programming_duration_seconds_bucket{le="300"}`:        2,
		`kubeproxy_conntrack_reconciler_sync_duration_seconds_bucket{le="+Inf"}`: 0,
	} {
		if got := sample(t, registry, name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil {
		t.Error(err)
	} else {
		for _, p := range problems {
			if strings.HasPrefix(p.Metric, "signpost_") {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
	}
}

// sample returns one line's value of a registry's text.
func sample(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	base, label, _ := strings.Cut(strings.TrimSuffix(name, `"}`), `{le="`)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			h := m.GetHistogram()
			switch {
			case f.GetName() == base && h == nil:
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			case f.GetName()+"_count" == base:
				return float64(h.GetSampleCount())
			case f.GetName()+"_sum" == base:
				return h.GetSampleSum()
			case f.GetName()+"_bucket" == base && label == "+Inf":
				return float64(h.GetSampleCount())
			case f.GetName()+"_bucket" == base:
				for _, b := range h.GetBucket() {
					if strconv.FormatFloat(b.GetUpperBound(), 'f', -1, 64) == label {
						return float64(b.GetCumulativeCount())
					}
				}
			}
		}
	}
	t.Errorf("there is no %s", name)
	return -1
}

func TestNoLocalEndpoints(t *testing.T) {
	t.Parallel()
	const far, near = "endpoint 10.1.0.1 node=n2\n", "endpoint 10.1.0.2 node=n1\n"
	for _, tt := range []struct {
		name, world        string
		internal, external int
	}{
		{"policies Cluster", "service a/a type=NodePort ips=10.0.0.1 ports=:80->30080\nslice a ports=:80\n" + far, 0, 0},
		{"external Local, two addresses of one port", "service a/a type=LoadBalancer etp=Local ips=10.0.0.1 lb=203.0.113.1 ports=:80->30080\nslice a ports=:80\n" + far, 0, 1},
		{"external Local with a local one", "service a/a type=NodePort etp=Local ips=10.0.0.1 ports=:80->30080\nslice a ports=:80\n" + far + near, 0, 0},
		{"both Local, two ports", "service a/a type=NodePort etp=Local itp=Local ips=10.0.0.1 ports=x:80->30080,y:81->30081\nslice a ports=x:80,y:81\n" + far, 2, 2},
		{"none anywhere", "service a/a type=NodePort etp=Local itp=Local ips=10.0.0.1 ports=:80->30080\n", 0, 0},
	} {
		w, err := viptest.ParseWorld("node n1 addrs=192.0.2.1 nodeports=192.0.2.1\n" + tt.world)
		if err != nil {
			t.Fatal(err)
		}
		internal, external := noLocalEndpoints(vip.Planner{}.Plan(w.Snapshot, w.Node))
		if internal != tt.internal || external != tt.external {
			t.Errorf("%s: internal %d, external %d, want %d and %d", tt.name, internal, external, tt.internal, tt.external)
		}
	}
}
