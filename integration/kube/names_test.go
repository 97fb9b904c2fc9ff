package kube

import (
	"os"
	"strings"
	"testing"
	"time"
)

// answers are asked of kubeadm's Corefile with testdata/names.yaml.
var answers = []struct{ name, kind, want string }{
	{"web.demo.svc.cluster.local", "A", "10.96.1.1"},
	{"web.demo.svc.cluster.local", "AAAA", "fd00:96::11"},
	{"WEB.demo.SVC.cluster.LOCAL", "A", "10.96.1.1"},
	{"balanced.demo.svc.cluster.local", "A", "10.96.1.2"},
	{"balanced.demo.svc.cluster.local", "AAAA", ""},
	{"_http._tcp.web.demo.svc.cluster.local", "SRV", "0 100 80 web.demo.svc.cluster.local."},
	{"_https._tcp.web.demo.svc.cluster.local", "SRV", "0 100 443 web.demo.svc.cluster.local."},
	{"_dns._udp.balanced.demo.svc.cluster.local", "SRV", "0 100 53 balanced.demo.svc.cluster.local."},
	{"_dns._tcp.balanced.demo.svc.cluster.local", "SRV", "NXDOMAIN"},
	{"1.1.96.10.in-addr.arpa", "PTR", "web.demo.svc.cluster.local."},
	{"1.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa", "PTR", "web.demo.svc.cluster.local."},
	// Slices that the controller has made of pods.
	{"db.demo.svc.cluster.local", "A", "10.244.1.10,10.244.2.10"},
	{"db-0.db.demo.svc.cluster.local", "A", "10.244.1.10"},
	{"db-2.db.demo.svc.cluster.local", "A", "NXDOMAIN"},
	{"db-all.demo.svc.cluster.local", "A", "10.244.1.10,10.244.2.10,10.244.2.11"},
	{"_sql._tcp.db.demo.svc.cluster.local", "SRV", "0 50 5432 db-0.db.demo.svc.cluster.local.,0 50 5432 db-1.db.demo.svc.cluster.local."},
	{"10.1.244.10.in-addr.arpa", "PTR", "10-244-1-10.db-all.demo.svc.cluster.local.,db-0.db.demo.svc.cluster.local."},
	// Slices that the controller has made of Endpoints.
	{"mirrored.demo.svc.cluster.local", "A", "198.51.100.7,198.51.100.8"},
	{"one.mirrored.demo.svc.cluster.local", "A", "198.51.100.7"},
	{"7.100.51.198.in-addr.arpa", "PTR", "one.mirrored.demo.svc.cluster.local."},
	// Slices written by hand.
	{"manual.demo.svc.cluster.local", "A", "10.244.9.1"},
	{"manual.demo.svc.cluster.local", "AAAA", "fd00:244::9:1"},
	{"docs.demo.svc.cluster.local", "CNAME", "www.example.com."},
	{"docs.demo.svc.cluster.local", "A", "192.0.2.80,www.example.com."},
	{"dns-version.cluster.local", "TXT", `"1.1.0"`},
	// Every address has a name with "pods insecure".
	{"10-244-1-10.demo.pod.cluster.local", "A", "10.244.1.10"},
	{"10-244-200-200.demo.pod.cluster.local", "A", "10.244.200.200"},
	{"none.demo.svc.cluster.local", "A", "NXDOMAIN"},
	{"web.none.svc.cluster.local", "A", "NXDOMAIN"},
	{"www.example.com", "A", "192.0.2.80"},
}

// verified are the differences with "pods verified".
var verified = []struct{ name, kind, want string }{
	{"10-244-1-10.demo.pod.cluster.local", "A", "10.244.1.10"},
	{"10-244-2-11.demo.pod.cluster.local", "A", "10.244.2.11"}, // not ready, and there all the same
	{"10-244-200-200.demo.pod.cluster.local", "A", "NXDOMAIN"},
	{"10-244-2-12.demo.pod.cluster.local", "A", "NXDOMAIN"}, // its work is done
	{"10-244-1-10.default.pod.cluster.local", "A", "NXDOMAIN"},
}

// TestNames asks for everything that a Service can be, as the real controllers
// see to it.
func TestNames(t *testing.T) {
	c := newCluster(t)
	token := c.grant()
	manifest, err := os.ReadFile("testdata/names.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, string(manifest))
	kubeconfig := c.kubeconfig(account, c.url(), "token: "+token)
	insecure := startServer(t, kubeadm, kubeconfig)
	strict := startServer(t, strings.ReplaceAll(kubeadm, "pods insecure", "pods verified\n       namespace_labels team=blue"), kubeconfig)
	insecure.waitReady()
	strict.waitReady()
	for _, a := range answers {
		insecure.expect(a.name, a.kind, a.want)
	}
	for _, a := range verified {
		strict.expect(a.name, a.kind, a.want)
	}
	t.Run("a change is in the next answer", func(t *testing.T) { testChanges(t, c, insecure, strict) })
	t.Run("least privilege", func(t *testing.T) {
		for _, r := range c.requests(account) {
			if r.Status.Code >= 400 || (r.Verb != "list" && r.Verb != "watch") || r.ObjectRef.Resource == "endpoints" {
				t.Errorf("%s %s: status %d", r.Verb, r.RequestURI, r.Status.Code)
			}
			if r.Verb == "list" {
				t.Errorf("a list where this server streams everything as a watch: %s", r.RequestURI)
			}
		}
	})
}

// testChanges: whatever was denied or told a moment ago, a change is visible at
// once; the cache of the Corefile has no say (cases A33, A34).
func testChanges(t *testing.T, c *cluster, s, strict *server) {
	const name = "new.demo.svc.cluster.local"
	service := func(address string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: new, namespace: demo}\nspec: {clusterIP: " + address + ", ports: [{port: 80}]}"
	}
	step := func(what, want string, change func()) {
		t.Helper()
		change()
		since := time.Now()
		for s.ask(name, "A") != want {
			if time.Since(since) > patience {
				t.Fatalf("%s: %q, want %q", what, s.ask(name, "A"), want)
			}
		}
		t.Logf("%s: visible %v after the API server's answer", what, time.Since(since).Round(100*time.Microsecond))
	}
	path := "/api/v1/namespaces/demo/services/new"
	s.expect(name, "A", "NXDOMAIN")
	step("a new Service", "10.96.1.9", func() { c.apply(t, service("10.96.1.9")) })
	step("a deleted Service", "NXDOMAIN", func() { c.remove(t, path) })
	step("the name again", "10.96.1.10", func() { c.apply(t, service("10.96.1.10")) })

	// A pod becomes ready, one goes: the controller and signpost follow.
	c.apply(t, `apiVersion: v1
kind: Pod
metadata: {name: db-2, namespace: demo, labels: {app: db}}
spec: {terminationGracePeriodSeconds: 0, nodeName: node-b, hostname: db-2, subdomain: db, containers: [{name: c, image: none}]}
status: {phase: Running, podIP: 10.244.2.11, podIPs: [{ip: 10.244.2.11}], conditions: [{type: Ready, status: "True"}]}`)
	c.remove(t, "/api/v1/namespaces/demo/pods/db-0")
	s.expect("db.demo.svc.cluster.local", "A", "10.244.2.10,10.244.2.11")
	s.expect("db-0.db.demo.svc.cluster.local", "A", "NXDOMAIN")
	s.expect("10.1.244.10.in-addr.arpa", "PTR", "")
	strict.expect("10-244-1-10.demo.pod.cluster.local", "A", "NXDOMAIN")

	// A label of the namespace takes it out of a filter and back.
	label := func(team string) {
		c.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo, labels: {team: "+team+"}}")
	}
	label("red")
	strict.expect("web.demo.svc.cluster.local", "A", "NXDOMAIN")
	label("blue")
	strict.expect("web.demo.svc.cluster.local", "A", "10.96.1.1")

	// A namespace ends: the controller empties it.
	c.remove(t, "/api/v1/namespaces/demo")
	s.expect("web.demo.svc.cluster.local", "A", "NXDOMAIN")
	s.expect("demo.svc.cluster.local", "A", "NXDOMAIN")
}
