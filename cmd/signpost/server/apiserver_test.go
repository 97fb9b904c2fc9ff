package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"signpost/discovery/kube"
	"signpost/integration/apistub"
)

// kubeadm is kubeadm's default Corefile with ports that a test can have, no
// upstream, and the server named instead of found by the pod's environment.
const kubeadm = `.:0 {
    bind 127.0.0.1
    errors
    health 127.0.0.1:0
    ready 127.0.0.1:0
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       endpoint URL
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus 127.0.0.1:0
    forward example.org 127.0.0.1:1
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    reload
    loadbalance
    admin unix://DIR/admin.sock
}
`

func cluster() []apistub.Object {
	headless := apistub.Slice("default", "db", "db-a", "10.244.0.5")
	hostname := "db-0"
	headless.Endpoints[0].Hostname = &hostname
	return []apistub.Object{
		apistub.Namespace("default"),
		apistub.Service("default", "kubernetes", "10.96.0.1"), apistub.Slice("default", "kubernetes", "kubernetes", "192.0.2.10"),
		apistub.Service("default", "web", "10.96.0.20"), apistub.Slice("default", "web", "web-a", "10.244.0.2"),
		apistub.Service("default", "db", "None"), headless,
	}
}

func TestKubeadm(t *testing.T) {
	api := apistub.New(apistub.Options{})
	defer api.Close()
	api.Put(cluster()...)
	r := start(t, strings.Replace(kubeadm, "URL", api.URL(), 1), nil)
	r.ready()
	queries := []struct{ name, rtype, want string }{
		{"kubernetes.default.svc.cluster.local.", "A", "10.96.0.1"},
		{"web.default.svc.cluster.local.", "A", "10.96.0.20"},
		{"db.default.svc.cluster.local.", "A", "10.244.0.5"},
		{"db-0.db.default.svc.cluster.local.", "A", "10.244.0.5"},
		{"_http._tcp.db.default.svc.cluster.local.", "SRV", "0 100 8080 db-0.db.default.svc.cluster.local."},
		{"20.0.96.10.in-addr.arpa.", "PTR", "web.default.svc.cluster.local."},
		{"5.0.244.10.in-addr.arpa.", "PTR", "db-0.db.default.svc.cluster.local."},
		{"10-244-0-9.default.pod.cluster.local.", "A", "10.244.0.9"},
		{"new.default.svc.cluster.local.", "A", ""},
	}
	for _, q := range queries {
		if got := strings.Join(r.query(q.name, q.rtype), " "); got != q.want {
			t.Errorf("%s %s: %q, want %q", q.name, q.rtype, got, q.want)
		}
	}
	if api.Watches("pods")+api.Watches("nodes") > 0 {
		t.Error("pods or nodes are followed, which kubeadm's ClusterRole doesn't allow for nodes")
	}

	// L8, cases A33, A34: what was denied a moment ago, and a new address.
	recreated := apistub.Service("default", "web", "10.96.0.21")
	recreated.UID = "another"
	api.Delete(recreated)
	api.Put(recreated, apistub.Service("default", "new", "10.96.0.30"))
	for name, want := range map[string]string{"new": "10.96.0.30", "web": "10.96.0.21"} {
		r.eventually(name, func() bool {
			return strings.Join(r.query(name+".default.svc.cluster.local.", "A"), " ") == want
		})
	}

	// L4: the server goes, the names stay, and ready too.
	api.Down()
	if got := r.query("new.default.svc.cluster.local.", "A"); !cmp.Equal(got, []string{"10.96.0.30"}) {
		t.Errorf("without the API server: %q", got)
	}
	if waiting := r.Waiting(); len(waiting) > 0 {
		t.Errorf("waiting for %q", waiting)
	}
	if _, metrics := r.get("127.0.0.1:0", "/metrics"); !strings.Contains(metrics, "coredns_kubernetes_rest_client_requests_total{") {
		t.Error("no metrics of the API client")
	}
}

// L1, L2, L3, cases A35, A36: until everything is here, cluster names fail, and
// others are answered.
func TestAPIServerComesLate(t *testing.T) {
	release := make(chan struct{})
	api := apistub.New(apistub.Options{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/endpointslices") {
			<-release
		}
		return false
	}})
	defer api.Close()
	api.Put(cluster()...)
	api.Down()
	text := strings.Replace(kubeadm, "URL", api.URL(), 1) + "example.com:0 {\n bind 127.0.0.1\n whoami\n}\n"
	r := start(t, text, nil)
	cluster, other := r.dns.Addrs()[0], r.dns.Addrs()[len(r.dns.Addrs())-1]
	fails := func(when string) {
		t.Helper()
		if data, answered := ask(t, cluster, "db.default.svc.cluster.local.", "A"); answered {
			t.Errorf("%s: answered with %q", when, data)
		}
		if _, answered := ask(t, other, "example.com.", "A"); !answered {
			t.Errorf("%s: other zones aren't answered", when)
		}
		if status, _ := r.get("127.0.0.1:0", "/ready"); status != http.StatusServiceUnavailable {
			t.Errorf("%s: ready", when)
		}
	}
	fails("without the API server")
	if err := api.Up(); err != nil {
		t.Fatal(err)
	}
	r.eventually("services", func() bool { return len(r.current.Load().source.inner.(*kube.Source).Missing()) == 1 })
	fails("with services only")
	if _, text := r.get("127.0.0.1:0", "/ready"); text != "kubernetes: the API server at "+api.URL()+" has not delivered endpointslices yet" {
		t.Errorf("/ready: %q", text)
	}
	close(release)
	r.ready()
	if got := r.query("db.default.svc.cluster.local.", "A"); !cmp.Equal(got, []string{"10.244.0.5"}) {
		t.Errorf("in the end: %q", got)
	}
}

// Filters and pods of dns-requirements §10, from an API server.
func TestAPIFilters(t *testing.T) {
	api := apistub.New(apistub.Options{})
	defer api.Close()
	labelled := apistub.Namespace("team")
	labelled.Labels = map[string]string{"dns": "on"}
	api.Put(cluster()...)
	api.Put(labelled, apistub.Service("team", "web", "10.96.0.40"), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.244.0.7"}}},
	})
	text := strings.Replace(strings.Replace(kubeadm, "URL", api.URL(), 1), "pods insecure", "pods verified\n namespace_labels dns=on", 1)
	r := start(t, text, nil)
	r.ready()
	for name, want := range map[string]string{
		"web.team.svc.cluster.local.": "10.96.0.40", "web.default.svc.cluster.local.": "",
		"10-244-0-7.team.pod.cluster.local.": "10.244.0.7", "10-244-0-8.team.pod.cluster.local.": "",
	} {
		if got := strings.Join(r.query(name, "A"), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestFindAPIServer(t *testing.T) {
	const one, other = " kubernetes cluster.local {\n endpoint https://192.0.2.1:6443\n }\n", " kubernetes cluster.local {\n endpoint https://192.0.2.2:6443\n }\n"
	tests := []struct{ name, text, endpoint, problem string }{
		{"none", ".:0 {\n whoami\n}\n", "", ""},
		{"one", ".:0 {\n" + one + "}\n", "https://192.0.2.1:6443", ""},
		{"the second names it", ".:0 {\n kubernetes cluster.local\n}\na.:0 {\n" + one + "}\n", "https://192.0.2.1:6443", ""},
		{"a dataplane beside it", ".:0 {\n vip\n}\na.:0 {\n" + one + "}\n", "https://192.0.2.1:6443", ""},
		{"two", ".:0 {\n" + one + "}\na.:0 {\n" + other + "}\n", "", "Corefile:7: kubernetes: another API server than on line 2: must be the same, there is one source"},
	}
	for _, test := range tests {
		found, err := findAPIServer(mustParse(t, test.text))
		switch {
		case err != nil:
			if err.Error() != test.problem {
				t.Errorf("%s: %v", test.name, err)
			}
		case test.problem != "":
			t.Errorf("%s: no problem", test.name)
		case found == nil:
			if test.endpoint != "" {
				t.Errorf("%s: nothing found", test.name)
			}
		case found.config.API.Endpoint != test.endpoint:
			t.Errorf("%s: endpoint %q", test.name, found.config.API.Endpoint)
		}
	}
}
