package kube

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"signpost/discovery"
	"signpost/integration/apistub"
)

// modes are the ways in which a server delivers everything.
var modes = map[string]apistub.Options{
	"watch-list": {}, "list": {NoWatchList: true},
	"watch-list in protobuf": {Protobuf: true}, "list and watch in protobuf": {NoWatchList: true, Protobuf: true},
}

func TestDelivers(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, mode)
			labelled := apistub.Namespace("team")
			labelled.Labels = map[string]string{"team": "a"}
			server.Put(labelled, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: "z"}},
				Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}},
			}, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "p"},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.244.0.2"}}},
			})
			h := follow(t, server, Config{Nodes: true, Pods: true})
			v := h.synced()
			if v.Revision != 1 {
				t.Errorf("revision %d: everything must be one", v.Revision)
			}
			if diff := cmp.Diff("10.244.0.2 10.244.0.3", addresses(v, "web", "front")); diff != "" {
				t.Error(diff)
			}
			if v.Nodes["n1"] == nil || v.Nodes["n1"].Zone != "z" || v.Pods.Len() != 1 || !v.Namespaces["default"] {
				t.Errorf("nodes %v, %d pods, namespaces %v", v.Nodes, v.Pods.Len(), v.Namespaces)
			}
			if diff := cmp.Diff(map[string]string{"team": "a"}, v.NamespaceLabels["team"]); diff != "" {
				t.Error(diff)
			}
			if lists := server.Lists("services"); (lists > 0) != mode.NoWatchList {
				t.Errorf("%d lists", lists)
			}
		})
	}
}

// Least privilege: what isn't wanted is not asked for.
func TestAsksForNoMore(t *testing.T) {
	server := newServer(t, apistub.Options{})
	follow(t, server, Config{}).synced()
	for _, r := range []string{"pods", "nodes"} {
		if n := server.Lists(r) + server.Watches(r); n != 0 {
			t.Errorf("%s: %d requests", r, n)
		}
	}
}

// L1, L3, P-23: nothing is published before every kind is there.
func TestNothingBeforeEverything(t *testing.T) {
	for _, late := range []string{"services", "endpointslices", "namespaces", "nodes"} {
		t.Run(late, func(t *testing.T) {
			release := make(chan struct{})
			server := newServer(t, apistub.Options{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/"+late) {
					<-release
				}
				return false
			}})
			h := follow(t, server, Config{Nodes: true})
			eventually(t, "the others", func() bool {
				n := 0
				for _, r := range []string{"services", "endpointslices", "namespaces", "nodes"} {
					n += server.Watches(r)
				}
				return n == 3
			})
			if v := h.store.Current(); v.Synced || v.Revision != 0 {
				t.Errorf("published without %s: revision %d", late, v.Revision)
			}
			close(release)
			h.synced()
		})
	}
}

func TestChanges(t *testing.T) {
	ready := true
	tests := []struct {
		name   string
		change func(*apistub.Server)
		want   string // endpoints of web/front, or of web/new
		of     string
	}{
		{"an endpoint more", func(s *apistub.Server) {
			s.Put(apistub.Slice("web", "front", "front-a", "10.244.0.2", "10.244.0.3", "10.244.0.4"))
		}, "10.244.0.2 10.244.0.3 10.244.0.4", "front"},
		{"a second slice", func(s *apistub.Server) { s.Put(apistub.Slice("web", "front", "front-b", "10.244.0.9")) }, "10.244.0.2 10.244.0.3 10.244.0.9", "front"},
		{"the slice goes", func(s *apistub.Server) { s.Delete(apistub.Slice("web", "front", "front-a")) }, "", "front"},
		{"the service goes, its slice stays", func(s *apistub.Server) { s.Delete(apistub.Service("web", "front", "")) }, "none", "front"},
		{"X09 the slice before its service", func(s *apistub.Server) {
			s.Put(apistub.Slice("web", "new", "new-a", "10.244.0.7"))
			s.Put(apistub.Service("web", "new", "10.96.0.30"))
		}, "10.244.0.7", "new"},
		{"the slice moves to another service", func(s *apistub.Server) {
			s.Put(apistub.Service("web", "new", "10.96.0.30"), apistub.Slice("web", "new", "front-a", "10.244.0.7"))
		}, "10.244.0.7", "new"},
		{"H21 the slice loses its label", func(s *apistub.Server) { s.Put(apistub.Slice("web", "", "front-a", "10.244.0.2")) }, "", "front"},
		{"H19 an FQDN slice", func(s *apistub.Server) {
			fqdn := apistub.Slice("web", "front", "front-a")
			fqdn.AddressType = discoveryv1.AddressTypeFQDN
			fqdn.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"example.com"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}
			s.Put(fqdn)
		}, "", "front"},
		{"X23 a slice of the other family", func(s *apistub.Server) {
			other := apistub.Slice("web", "front", "front-6", "fd00::7")
			other.AddressType = discoveryv1.AddressTypeIPv6
			s.Put(other, apistub.Slice("web", "front", "front-b", "10.244.0.9"))
		}, "10.244.0.2 10.244.0.3 10.244.0.9", "front"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := follow(t, newServer(t, apistub.Options{}), Config{})
			h.synced()
			test.change(h.server)
			h.waitFor("web", test.of, test.want)
		})
	}
}

// X09: delete and add at once is the new object, whatever a watcher sees.
func TestDeleteAndAdd(t *testing.T) {
	h := follow(t, newServer(t, apistub.Options{}), Config{})
	h.synced()
	again := apistub.Service("web", "front", "10.96.0.99")
	again.UID = "another"
	h.server.Delete(again)
	h.server.Put(again)
	v := h.wait("the new one", func(v *discovery.Snapshot) bool {
		s, ok := v.Services.Get(discovery.Key{Namespace: "web", Name: "front"})
		return ok && s.UID == "another"
	})
	if got := addresses(v, "web", "front"); got != "10.244.0.2 10.244.0.3" {
		t.Errorf("endpoints %q", got)
	}
}

// Namespaces come and go, and their labels change.
func TestNamespaces(t *testing.T) {
	h := follow(t, newServer(t, apistub.Options{}), Config{})
	h.synced()
	labelled := apistub.Namespace("web")
	labelled.Labels = map[string]string{"dns": "on"}
	h.server.Put(labelled)
	h.wait("the label", func(v *discovery.Snapshot) bool { return v.NamespaceLabels["web"]["dns"] == "on" })
	h.server.Delete(labelled)
	h.wait("its end", func(v *discovery.Snapshot) bool { return !v.Namespaces["web"] && v.NamespaceLabels["web"] == nil })
}

// X09: a storm of events becomes few revisions, and the last state counts.
func TestStorm(t *testing.T) {
	h := follow(t, newServer(t, apistub.Options{}), Config{})
	before := h.synced().Revision
	const events = 5000
	start := time.Now()
	for i := range events {
		h.server.Put(apistub.Slice("web", "front", "front-a", fmt.Sprintf("10.245.%d.%d", i/250, i%250+1)))
	}
	last := fmt.Sprintf("10.245.%d.%d", (events-1)/250, (events-1)%250+1)
	v := h.waitFor("web", "front", last)
	most := uint64(time.Since(start)/window) + 2
	if n := v.Revision - before; n > most {
		t.Errorf("%d revisions of %d events in %v: want at most %d", n, events, time.Since(start), most)
	}
}

// What has come in the meantime is published as one revision.
func TestOneRevision(t *testing.T) {
	cfg := Config{}.withDefaults()
	w := newWorld(&cfg, newHealth(cfg.Log, "test", nil))
	store := discovery.NewStore()
	for i, o := range []apistub.Object{apistub.Slice("web", "new", "new-a", "10.244.0.7"), apistub.Service("web", "new", "10.96.0.30")} {
		table := w.tables[1-i]
		if err := table.Add(table.resource.item(o, nil)); err != nil {
			t.Fatal(err)
		}
	}
	v := store.Update(func(tx *discovery.Tx) { w.apply(tx) })
	if got := addresses(v, "web", "new"); got != "10.244.0.7" || v.Revision != 1 {
		t.Errorf("revision %d: %q", v.Revision, got)
	}
	if again := store.Update(func(tx *discovery.Tx) { w.apply(tx) }); again != v {
		t.Errorf("nothing has changed, and the revision is %d", again.Revision)
	}
}
