package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The ranges of cluster addresses; each test may take fixed ones from them.
const serviceRanges = "10.96.0.0/16,fd00:96::/112"

// cluster is a control plane on loopback ports.
type cluster struct {
	t         *testing.T
	binary    string
	dir       string
	pki       *pki
	etcd      string // URL
	port      string // of the API server
	apiserver *process
	*api
}

// newCluster starts a control plane and waits until it is ready.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{t: t, binary: controlPlane(t), dir: dir, pki: newPKI(t, dir), etcd: "http://127.0.0.1:" + freePort(t), port: freePort(t)}
	c.api = newAPI(c.url(), c.pki)
	started := time.Now()
	peer := "http://127.0.0.1:" + freePort(t)
	startProcess(t, dir, "etcd", c.binary, "etcd", "--name=test", "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+c.etcd, "--advertise-client-urls="+c.etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=test="+peer)
	c.start()
	eventually(t, "the namespace kube-system", func() bool {
		status, _, err := c.do(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err == nil && status == http.StatusOK
	})
	startProcess(t, dir, "controllers", c.binary, "controllers", "-kubeconfig", c.kubeconfig("admin", c.url(),
		"client-certificate: "+c.pki.path("admin.crt")+", client-key: "+c.pki.path("admin.key")))
	t.Logf("the control plane was ready after %v", time.Since(started).Round(time.Millisecond))
	return c
}

// controlPlane returns the binary that integration/kubeapi builds.
func controlPlane(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("KUBEAPI")
	switch {
	case binary != "":
		return binary
	case os.Getenv("REQUIRE_KUBE") != "":
		t.Fatal("KUBEAPI does not name the control plane's binary: run make integration-kube")
	default:
		t.Skip("needs a control plane: run make integration-kube, or set KUBEAPI to what integration/kubeapi/build.sh prints")
	}
	return ""
}

func (c *cluster) url() string { return "https://127.0.0.1:" + c.port }

// start starts the API server, with whatever data there is, and waits until it
// is ready.
func (c *cluster) start() {
	c.t.Helper()
	policy := filepath.Join(c.dir, "audit.yaml")
	writeFile(c.t, policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
	file := c.pki.path
	c.apiserver = startProcess(c.t, c.dir, "apiserver", c.binary, "apiserver",
		"--etcd-servers="+c.etcd, "--bind-address=127.0.0.1", "--secure-port="+c.port,
		// Nobody reaches it by the Service "kubernetes": the tests write that one's slices, if any.
		"--advertise-address=192.0.2.2", "--endpoint-reconciler-type=none",
		"--tls-cert-file="+file("server.crt"), "--tls-private-key-file="+file("server.key"), "--client-ca-file="+file("ca.crt"),
		"--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+file("accounts.pub"), "--service-account-signing-key-file="+file("accounts.key"),
		"--service-cluster-ip-range="+serviceRanges,
		"--disable-admission-plugins=ServiceAccount", // it wants an account in each namespace, which a controller makes
		"--audit-policy-file="+policy, "--audit-log-path="+c.auditLog(), "--profiling=false", "--v=0")
	eventually(c.t, "an API server that is ready", func() bool {
		select {
		case <-c.apiserver.ended:
			c.t.Fatal("the API server ended")
		default:
		}
		status, text, err := c.do(http.MethodGet, "/readyz", "", nil)
		return err == nil && status == http.StatusOK && string(text) == "ok"
	})
}

// restart kills the API server and starts it with the same data.
func (c *cluster) restart() {
	c.t.Helper()
	c.apiserver.kill()
	c.start()
}

// compact has etcd forget all versions but the present one.
func (c *cluster) compact() {
	c.t.Helper()
	body := fmt.Appendf(nil, `{"revision": %s, "physical": true}`, c.version("/api/v1/namespaces"))
	answer, err := http.Post(c.etcd+"/v3/kv/compaction", "application/json", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		c.t.Fatalf("compacting: %s", answer.Status)
	}
}

// kubeconfig writes a file by which a user reaches a server.
func (c *cluster) kubeconfig(name, server, user string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name+".kubeconfig")
	writeFile(c.t, path, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority: %s}}]
users: [{name: test, user: {%s}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, server, c.pki.path("ca.crt"), user))
	return path
}

// request is what the API server noted of one that it has answered.
type request struct {
	Verb       string
	RequestURI string
	User       struct{ Username string }
	ObjectRef  struct{ Resource string }
	Stage      string
	Status     struct{ Code int }
}

func (c *cluster) auditLog() string { return filepath.Join(c.dir, "audit.log") }

// requests returns those of a service account of kube-system that the API
// server has begun to answer, in their order.
func (c *cluster) requests(account string) []request {
	c.t.Helper()
	text, err := os.ReadFile(c.auditLog())
	if err != nil {
		c.t.Fatal(err)
	}
	var list []request
	for line := range bytes.Lines(text) {
		var r request
		if json.Unmarshal(line, &r) != nil {
			continue // the last one is being written
		}
		began := r.Stage == "ResponseStarted" || (r.Stage == "ResponseComplete" && !strings.Contains(r.RequestURI, "watch=true"))
		if began && r.User.Username == "system:serviceaccount:kube-system:"+account {
			list = append(list, r)
		}
	}
	return list
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
