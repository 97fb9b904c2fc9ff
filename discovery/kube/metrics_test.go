package kube

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestFutureTrigger is X12: a change that, by another machine's clock, is yet
// to come took no time.
func TestFutureTrigger(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	for _, took := range []time.Duration{-time.Hour, -365 * 24 * time.Hour} {
		m.programmed(took)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "coredns_kubernetes_dns_programming_duration_seconds" {
			continue
		}
		if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 2 || h.GetSampleSum() != 0 {
			t.Errorf("%d changes in %v s, want 2 in none", h.GetSampleCount(), h.GetSampleSum())
		}
		return
	}
	t.Error("nothing was measured")
}
