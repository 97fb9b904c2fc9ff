package kube

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"signpost/discovery"
	"signpost/integration/apistub"
)

// F-16: the ranges of cluster addresses come with the first revision, and are
// followed.
func TestServiceRanges(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, mode)
			server.Put(apistub.ServiceCIDR("kubernetes", "10.96.0.0/12", "fd00:96::/112"))
			h := follow(t, server, Config{Nodes: true})
			if v := h.synced(); v.Revision != 1 || fmt.Sprint(v.ServiceCIDRs) != "[10.96.0.0/12 fd00:96::/112]" {
				t.Errorf("revision %d, ranges %v", v.Revision, v.ServiceCIDRs)
			}
			server.Put(apistub.ServiceCIDR("more", "10.200.0.0/16", "10.96.0.0/12", "nonsense"))
			h.waitForRanges("[10.96.0.0/12 10.200.0.0/16 fd00:96::/112]")
			server.Delete(apistub.ServiceCIDR("kubernetes"))
			h.waitForRanges("[10.96.0.0/12 10.200.0.0/16]")
		})
	}
}

func (h *harness) waitForRanges(want string) {
	h.t.Helper()
	h.wait("ranges "+want, func(v *discovery.Snapshot) bool { return fmt.Sprint(v.ServiceCIDRs) == want })
}

// F-16: a server that has no such objects, or an account that may not see them,
// is one line in the log; all else works, and they are followed once they can be.
func TestServiceRangesLacking(t *testing.T) {
	refusals := map[string]func(http.ResponseWriter){
		"older server": func(w http.ResponseWriter) {
			apistub.Fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		},
		"no group": func(w http.ResponseWriter) { http.NotFound(w, nil) },
		"no right": func(w http.ResponseWriter) {
			apistub.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, `servicecidrs.networking.k8s.io is forbidden: User "x" cannot list resource`)
		},
	}
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			var lacking atomic.Bool
			var asked atomic.Int32
			lacking.Store(true)
			server := newServer(t, apistub.Options{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/servicecidrs") || !lacking.Load() {
					return false
				}
				asked.Add(1)
				refuse(w)
				return true
			}})
			server.Put(apistub.ServiceCIDR("kubernetes", "10.96.0.0/12"))
			registry := prometheus.NewRegistry()
			h := follow(t, server, Config{Nodes: true, Metrics: NewMetrics(registry), lacking: time.Millisecond, grace: time.Millisecond})
			if v := h.synced(); len(v.ServiceCIDRs) > 0 || v.Services.Len() == 0 {
				t.Errorf("ranges %v, %d services", v.ServiceCIDRs, v.Services.Len())
			}
			eventually(t, "asking again", func() bool { return asked.Load() > 6 })
			server.Put(apistub.Service("web", "new", "10.96.0.30"))
			h.waitFor("web", "new", "")
			if failing := h.source.Failing(); len(failing) > 0 {
				t.Errorf("failing: %v", failing)
			}
			if n := h.log.count("resource=servicecidrs"); n != 1 || h.log.count("level=WARN")+h.log.count("level=ERROR") > 0 {
				t.Errorf("log:\n%s", h.log.text.String())
			}
			if connected(t, registry, "servicecidrs") >= 0 {
				t.Error("the figure of a kind that the server lacks is there")
			}
			lacking.Store(false)
			h.waitForRanges("[10.96.0.0/12]")
			eventually(t, "the figure", func() bool { return connected(t, registry, "servicecidrs") == 1 })
		})
	}
}

// connected is the figure of a resource; -1: there is none.
func connected(t *testing.T, registry *prometheus.Registry, resource string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "signpost_kubernetes_connected" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == resource {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// The ranges are nothing that names wait for: a server that can't tell them now
// is asked on.
func TestServiceRangesFailing(t *testing.T) {
	var failing atomic.Bool
	failing.Store(true)
	server := newServer(t, apistub.Options{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/servicecidrs") || !failing.Load() {
			return false
		}
		apistub.Fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: no leader")
		return true
	}})
	server.Put(apistub.ServiceCIDR("kubernetes", "10.96.0.0/12"))
	h := follow(t, server, Config{Nodes: true})
	h.synced()
	failing.Store(false)
	h.waitForRanges("[10.96.0.0/12]")
	eventually(t, "recovery", func() bool { return len(h.source.Failing()) == 0 })
}

// An API server that has just started knows nobody's rights for a moment: no
// line says that one is missing, unless that lasts.
func TestRefusedForAMoment(t *testing.T) {
	var refusing atomic.Bool
	var refused atomic.Int32
	server := newServer(t, apistub.Options{Intercept: func(w http.ResponseWriter, _ *http.Request) bool {
		if refusing.Load() {
			refused.Add(1)
			apistub.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, `it is forbidden: User "x" cannot list resource`)
		}
		return refusing.Load()
	}})
	server.Put(apistub.ServiceCIDR("kubernetes", "10.96.0.0/12"))
	refuse := func(h *harness, until func() bool) {
		refused.Store(0)
		refusing.Store(true)
		server.CloseWatches()
		eventually(t, "refusals", until)
		refusing.Store(false)
		eventually(t, "recovery", func() bool { return len(h.source.Failing()) == 0 })
	}
	h := follow(t, server, Config{Nodes: true})
	h.waitForRanges("[10.96.0.0/12]")
	refuse(h, func() bool { return refused.Load() > 20 })
	server.Put(apistub.ServiceCIDR("more", "10.200.0.0/16"))
	h.waitForRanges("[10.96.0.0/12 10.200.0.0/16]")
	if warnings := h.log.count("level=WARN"); warnings != 1 || h.log.count("level=ERROR") > 0 || h.log.count("no such kind") > 0 {
		t.Errorf("log:\n%s", h.log.text.String())
	}
	h.stop()

	h = follow(t, server, Config{Nodes: true, grace: time.Millisecond, lacking: time.Millisecond})
	h.waitForRanges("[10.96.0.0/12 10.200.0.0/16]")
	refuse(h, func() bool { return h.log.count("level=ERROR") == 4 && h.log.count("no such kind") == 1 })
}
