package kube

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// services is where the API has the Services of the namespace demo.
const services = "/api/v1/namespaces/demo/services"

func service(name, address string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: demo}\nspec: {clusterIP: " + address + ", ports: [{name: http, port: 80}]}"
}

// TestOutages is about everything that can happen to the way to the API server.
func TestOutages(t *testing.T) {
	c := newCluster(t)
	way := newRelay(t, c.port)
	kubeconfig := c.kubeconfig(account, way.url(), "token: "+c.grant())
	manifest, err := os.ReadFile("testdata/names.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, string(manifest))
	c.apply(t, service("gone", "10.96.2.1"))

	s := startServer(t, kubeadm, kubeconfig)
	step := func(name string, f func(t *testing.T)) {
		if !t.Run(name, f) {
			t.FailNow() // the next one stands on it
		}
	}
	step("L1 L2 L3 A35 A36: before the first contact", func(t *testing.T) { testLate(t, s) })
	way.open(t)
	s.waitReady()
	s.expect("db.demo.svc.cluster.local", "A", "10.244.1.10,10.244.2.10")

	steady := watchNames(t, s)
	step("L4 X08: the API server is away and comes back", func(t *testing.T) { testAway(t, c, s) })
	step("the connections are cut", func(t *testing.T) { testCut(t, c, s, way) })
	step("L5 X08: changes behind a closed door, and versions that are gone", func(t *testing.T) { testGap(t, c, s, way) })
	steady()
	for line := range strings.Lines(s.output()) {
		if strings.Contains(line, "level=ERROR") && !strings.Contains(line, "answering query failed") { // those of the start
			t.Errorf("the log has an error: %s", line)
		}
	}
}

func testLate(t *testing.T, s *server) {
	var text string
	eventually(t, "an answer of /ready", func() bool {
		var status int
		status, text = s.get(s.ready, "/ready")
		return status == http.StatusServiceUnavailable
	})
	if !strings.Contains(text, "has not delivered endpointslices, namespaces, services") {
		t.Errorf("/ready waits for %q: want it to name what is missing", text)
	}
	for _, a := range []struct{ name, kind, want string }{
		{"web.demo.svc.cluster.local", "A", "SERVFAIL"},
		{"none.demo.svc.cluster.local", "A", "SERVFAIL"},
		{"1.1.96.10.in-addr.arpa", "PTR", "SERVFAIL"},
		{"www.example.com", "A", "192.0.2.80"},
	} {
		if got := s.ask(a.name, a.kind); got != a.want {
			t.Errorf("%s %s: %q, want %q", a.name, a.kind, got, a.want)
		}
	}
	if got := s.figure(`signpost_kubernetes_connected{resource="services"}`); got != 0 {
		t.Errorf("connected: %v", got)
	}
}

// watchNames asks for names that nobody changes, all the time; the function
// that it returns ends that and reports every wrong answer.
func watchNames(t *testing.T, s *server) (end func()) {
	t.Helper()
	var over atomic.Bool
	var asked, wrong atomic.Int64
	var first atomic.Pointer[string]
	var running sync.WaitGroup
	for _, a := range answers[:12] {
		running.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for ; !over.Load(); <-pace.C {
				got := "no answer"
				if reply, err := exchange(s.dns, a.name, a.kind); err == nil {
					got = words(reply)
				}
				asked.Add(1)
				if got != a.want {
					text := a.name + " " + a.kind + ": " + got + ", want " + a.want
					first.CompareAndSwap(nil, &text)
					wrong.Add(1)
				}
			}
		})
	}
	return func() {
		t.Helper()
		over.Store(true)
		running.Wait()
		t.Logf("asked %d times meanwhile", asked.Load())
		if n := wrong.Load(); n > 0 {
			t.Errorf("%d of %d answers were wrong, the first: %s", n, asked.Load(), *first.Load())
		}
	}
}

func testAway(t *testing.T, c *cluster, s *server) {
	const connected = `signpost_kubernetes_connected{resource="services"}`
	const warning = "following the API server fails" // others are about a machine that is busy
	lines := strings.Count(s.output(), warning)
	c.apiserver.kill()
	eventually(t, "a loss that is noticed", func() bool { return s.figure(connected) == 0 })
	if status, text := s.get(s.ready, "/ready"); status != http.StatusOK {
		t.Errorf("/ready while the API server is away: %d %s", status, text)
	}
	c.start()
	c.apply(t, service("after", "10.96.2.2"))
	s.expect("after.demo.svc.cluster.local", "A", "10.96.2.2")
	eventually(t, "a return that is noticed", func() bool { return s.figure(connected) == 1 })
	if n := strings.Count(s.output(), warning) - lines; n != 1 {
		t.Errorf("%d warnings for one outage:\n%s", n, s.output())
	}
}

// testCut: the watch of Services goes on from where it was; nothing is asked for
// again. (Watches that end within a second, and have brought nothing by then,
// begin anew.)
func testCut(t *testing.T, c *cluster, s *server, way *relay) {
	initial := func() (n int) {
		for _, r := range c.requests(account) {
			if r.ObjectRef.Resource == "services" && (strings.Contains(r.RequestURI, "sendInitialEvents") || r.Verb == "list") {
				n++
			}
		}
		return n
	}
	c.apply(t, service("cut0", "10.96.2.10"))
	s.expect("cut0.demo.svc.cluster.local", "A", "10.96.2.10")
	before := initial()
	for i := range 3 {
		way.cut()
		name, address := fmt.Sprintf("cut%d", i+1), fmt.Sprintf("10.96.2.%d", i+11)
		c.apply(t, service(name, address))
		s.expect(name+".demo.svc.cluster.local", "A", address)
	}
	if after := initial(); after != before {
		t.Errorf("all Services were asked for %d times more", after-before)
	}
}

// testGap: what was deleted in a gap is gone afterwards, and what came is there,
// even where the API server can't tell the changes between any more.
func testGap(t *testing.T, c *cluster, s *server, way *relay) {
	version := c.version("/api/v1/services")
	way.close()
	c.remove(t, services+"/gone", "/api/v1/namespaces/demo/pods/db-2")
	c.apply(t, service("came", "10.96.2.6"))
	c.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: fresh}")
	c.restart()
	c.compact()
	c.apply(t, service("later", "10.96.2.7"))
	if !c.expired("/api/v1/services", version) {
		t.Error("the API server still knows the version from before: nothing is tested")
	}
	if got := s.ask("gone.demo.svc.cluster.local", "A"); got != "10.96.2.1" {
		t.Errorf("meanwhile: %q, want what was known last", got)
	}
	way.open(t)
	s.expect("came.demo.svc.cluster.local", "A", "10.96.2.6")
	s.expect("later.demo.svc.cluster.local", "A", "10.96.2.7")
	s.expect("gone.demo.svc.cluster.local", "A", "NXDOMAIN")
	s.expect("db-all.demo.svc.cluster.local", "A", "10.244.1.10,10.244.2.10")
	s.expect("fresh.svc.cluster.local", "A", "")
}
