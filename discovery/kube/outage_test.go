package kube

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"signpost/discovery"
	"signpost/integration/apistub"
)

// L5: what was deleted in a gap is gone afterwards, what came is there.
func TestGap(t *testing.T) {
	gaps := map[string]func(t *testing.T, s *apistub.Server, meanwhile func()){
		"watches close": func(_ *testing.T, s *apistub.Server, meanwhile func()) {
			meanwhile()
			s.CloseWatches()
		},
		"X08 410 Gone": func(_ *testing.T, s *apistub.Server, meanwhile func()) {
			s.CloseWatches()
			meanwhile()
			s.Compact()
			s.CloseWatches()
		},
		"the server is away": func(t *testing.T, s *apistub.Server, meanwhile func()) {
			s.Down()
			meanwhile()
			s.Compact()
			if err := s.Up(); err != nil {
				t.Fatal(err)
			}
		},
	}
	for gap, run := range gaps {
		for mode, options := range modes {
			t.Run(gap+", "+mode, func(t *testing.T) {
				h := follow(t, newServer(t, options), Config{})
				h.synced()
				run(t, h.server, func() {
					h.server.Delete(apistub.Service("web", "front", ""), apistub.Slice("web", "front", "front-a"))
					h.server.Put(apistub.Service("web", "new", "10.96.0.30"), apistub.Slice("web", "new", "new-a", "10.244.0.7"))
				})
				h.waitFor("web", "new", "10.244.0.7")
				h.waitFor("web", "front", "none")
			})
		}
	}
}

// L4, X08: an outage keeps the last state, with one line when it begins and
// one when it ends, and figures.
func TestOutage(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := follow(t, newServer(t, apistub.Options{}), Config{Metrics: NewMetrics(registry)})
	before := h.synced()
	h.server.Down()
	eventually(t, "failures", func() bool {
		return testutil.ToFloat64(h.source.cfg.Metrics.failures.WithLabelValues("services")) > 3
	})
	if v := h.store.Current(); v != before {
		t.Errorf("revision %d became %d", before.Revision, v.Revision)
	}
	if connected := testutil.ToFloat64(h.source.cfg.Metrics.connected.WithLabelValues("services")); connected != 0 {
		t.Errorf("connected %v", connected)
	}
	if err := h.server.Up(); err != nil {
		t.Fatal(err)
	}
	h.server.Put(apistub.Service("web", "new", "10.96.0.30"))
	h.waitFor("web", "new", "")
	eventually(t, "recovery", func() bool { return len(h.source.Failing()) == 0 })
	if n, m := h.log.count("level=WARN"), h.log.count("following the API server again"); n != 1 || m != 1 {
		t.Errorf("%d lines of failing and %d of recovery:\n%s", n, m, h.log.text.String())
	}
	if n := testutil.CollectAndCount(registry, "coredns_kubernetes_rest_client_requests_total"); n == 0 {
		t.Error("no requests counted")
	}
}

// L4, X08: a load balancer without a server behind it takes connections and ends
// them at once; that is an outage like any other.
func TestNobodyBehind(t *testing.T) {
	for mode, options := range modes {
		t.Run(mode, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			h := follow(t, newServer(t, options), Config{Metrics: NewMetrics(registry)})
			before := h.synced()
			h.server.Down()
			listener, err := net.Listen("tcp", strings.TrimPrefix(h.server.URL(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					_ = conn.Close()
				}
			}()
			for _, resource := range []string{"services", "endpointslices", "namespaces"} {
				eventually(t, "the loss of "+resource, func() bool { return connected(t, registry, resource) == 0 })
			}
			_ = listener.Close()
			<-ended
			if v := h.store.Current(); v != before {
				t.Errorf("revision %d became %d", before.Revision, v.Revision)
			}
			if err := h.server.Up(); err != nil {
				t.Fatal(err)
			}
			h.server.Put(apistub.Service("web", "new", "10.96.0.30"))
			h.waitFor("web", "new", "")
			eventually(t, "recovery", func() bool { return len(h.source.Failing()) == 0 && connected(t, registry, "services") == 1 })
			if n := h.log.count("level=WARN"); n != 1 {
				t.Errorf("%d lines of failing:\n%s", n, h.log.text.String())
			}
		})
	}
}

// X08, P-23: no answer that is not a whole list takes anything away.
func TestBadLists(t *testing.T) {
	answers := map[string]func(http.ResponseWriter){
		"500": func(w http.ResponseWriter) {
			apistub.Fail(w, 500, metav1.StatusReasonInternalError, "etcdserver: no leader")
		},
		"429": func(w http.ResponseWriter) {
			apistub.Fail(w, 429, metav1.StatusReasonTooManyRequests, "too many requests")
		},
		"403": func(w http.ResponseWriter) { apistub.Fail(w, 403, metav1.StatusReasonForbidden, "not you") },
		"an empty list with an error": func(w http.ResponseWriter) {
			apistub.Fail(w, 200, metav1.StatusReasonInternalError, "not now")
		},
		"another kind": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[]}`))
		},
		"no resource version": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"kind":"ServiceList","items":[]}`)) },
		"no items": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"kind":"ServiceList","metadata":{"resourceVersion":"9"}}`))
		},
		"no kind": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"9"},"items":[]}`)) },
		"cut short": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"kind":"ServiceList","metadata":{"resourceVersion":"9"},"items":[`))
		},
		"cut after an item": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"kind":"ServiceList","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"x","namespace":"y"}}`))
		},
		"nothing":  func(http.ResponseWriter) {},
		"not JSON": func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) },
		"an item that is none": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"kind":"ServiceList","metadata":{"resourceVersion":"9"},"items":[7]}`))
		},
		"items that are none": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"kind":"ServiceList","metadata":{"resourceVersion":"9"},"items":{}}`))
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var bad atomic.Bool
			var asked atomic.Int32
			server := newServer(t, apistub.Options{NoWatchList: true, Intercept: func(w http.ResponseWriter, r *http.Request) bool {
				if !bad.Load() || !strings.HasSuffix(r.URL.Path, "/services") {
					return false
				}
				if r.URL.Query().Get("watch") != "" {
					apistub.Fail(w, http.StatusGone, metav1.StatusReasonExpired, "too old")
					return true
				}
				asked.Add(1)
				answer(w)
				return true
			}})
			h := follow(t, server, Config{})
			before := h.synced()
			bad.Store(true)
			server.CloseWatches()
			eventually(t, "attempts", func() bool { return asked.Load() >= 2 })
			if v := h.store.Current(); v != before {
				t.Errorf("revision %d became %d with %d services", before.Revision, v.Revision, v.Services.Len())
			}
			server.Delete(apistub.Service("web", "front", ""))
			bad.Store(false)
			h.waitFor("web", "front", "none")
		})
	}
}

// P-23: a server that comes up without its data is doubted, then believed.
func TestEmptied(t *testing.T) {
	for mode, options := range modes {
		t.Run(mode, func(t *testing.T) {
			h := follow(t, newServer(t, options), Config{doubt: 300 * time.Millisecond})
			before := h.synced()
			start := time.Now()
			h.server.Clear()
			h.server.CloseWatches()
			eventually(t, "doubt", func() bool { return h.log.count("not believed yet") > 0 })
			if v := h.store.Current(); v != before && time.Since(start) < 200*time.Millisecond {
				t.Errorf("%d services are left", v.Services.Len())
			}
			h.wait("belief", func(v *discovery.Snapshot) bool { return v.Services.Len() == 0 })
			if took := time.Since(start); took < 300*time.Millisecond {
				t.Errorf("believed after %v", took)
			}
		})
	}
}

// L2, cases A35, A36: a server that comes late is waited for.
func TestServerComesLate(t *testing.T) {
	server := newServer(t, apistub.Options{})
	server.Down()
	h := follow(t, server, Config{})
	eventually(t, "failure", func() bool { return len(h.source.Failing()) > 0 })
	if h.store.Current().Synced {
		t.Error("synced without a server")
	}
	if missing := strings.Join(h.source.Missing(), " "); missing != "endpointslices namespaces services" {
		t.Errorf("missing %q", missing)
	}
	if err := server.Up(); err != nil {
		t.Fatal(err)
	}
	h.synced()
	if missing := h.source.Missing(); len(missing) > 0 {
		t.Errorf("in the end, missing %q", missing)
	}
}

// A missing right is said by name, and once.
func TestForbidden(t *testing.T) {
	server := newServer(t, apistub.Options{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/endpointslices") {
			return false
		}
		apistub.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, `endpointslices.discovery.k8s.io is forbidden: User "x" cannot list resource`)
		return true
	}})
	registry := prometheus.NewRegistry()
	h := follow(t, server, Config{Metrics: NewMetrics(registry)})
	eventually(t, "failures", func() bool {
		return testutil.ToFloat64(h.source.cfg.Metrics.failures.WithLabelValues("endpointslices")) > 3
	})
	if n := h.log.count("level=ERROR"); n != 1 || h.log.count("resource=endpointslices") != 1 {
		t.Errorf("log:\n%s", h.log.text.String())
	}
}

// The end is prompt in whatever state.
func TestEnds(t *testing.T) {
	states := map[string]func(*apistub.Server){"synced": func(*apistub.Server) {}, "without a server": (*apistub.Server).Down}
	for name, prepare := range states {
		t.Run(name, func(t *testing.T) {
			h := follow(t, newServer(t, apistub.Options{}), Config{})
			h.synced()
			prepare(h.server)
			h.stop()
		})
	}
	t.Run("while everything hangs", func(t *testing.T) {
		release := make(chan struct{})
		server := newServer(t, apistub.Options{Intercept: func(http.ResponseWriter, *http.Request) bool { <-release; return true }})
		h := follow(t, server, Config{})
		h.stop()
		close(release)
	})
}

// L-07: programming time is that of changes since the start, of headless
// services with a selector.
func TestProgrammingTime(t *testing.T) {
	registry := prometheus.NewRegistry()
	server := newServer(t, apistub.Options{})
	at := func(service, name string, when time.Time, address string) apistub.Object {
		s := apistub.Slice("web", service, name, address)
		s.Annotations = map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": when.UTC().Format(time.RFC3339Nano)}
		return s
	}
	server.Put(apistub.Service("web", "hd", "None"), at("hd", "hd-a", time.Now().Add(-time.Hour), "10.244.0.4"))
	h := follow(t, server, Config{Metrics: NewMetrics(registry)})
	h.synced()
	count := func() int {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "coredns_kubernetes_dns_programming_duration_seconds" {
				return int(f.GetMetric()[0].GetHistogram().GetSampleCount())
			}
		}
		return 0
	}
	if n := count(); n != 0 {
		t.Errorf("%d measured of a time before the start", n)
	}
	for i, service := range []string{"front", "hd", "hd"} {
		address := fmt.Sprintf("10.244.1.%d", i+1)
		server.Put(at(service, service+"-a", time.Now(), address))
		h.waitFor("web", service, address)
	}
	eventually(t, "two measured", func() bool { return count() == 2 })
}
