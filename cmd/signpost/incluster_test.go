package main

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"signpost/integration/apistub"
	"signpost/vip/viptest"
)

// asPod runs the program as a pod's container sees the world: with a service
// account where pods have theirs, in a mount namespace of its own.
const asPod = `set -e
mount -t tmpfs tmpfs /run
account=/run/secrets/kubernetes.io/serviceaccount
mkdir -p $account
cp token ca.crt $account
exec "$0" serve`

// TestKubeadmUnchanged boots kubeadm's default Corefile as it is, as a pod of a
// cluster: service account, environment, ports and all.
func TestKubeadmUnchanged(t *testing.T) {
	viptest.InNamespace(t)
	stub := apistub.New(apistub.Options{Protobuf: true})
	t.Cleanup(stub.Close)
	stub.Put(apistub.Namespace("default"), apistub.Service("default", "kubernetes", "10.96.0.1"), apistub.Slice("default", "kubernetes", "kubernetes", "127.0.0.1"))
	var strangers atomic.Int32
	listener, err := net.Listen("tcp", "127.0.0.1:0") // here: in the namespace
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-pod" {
			strangers.Add(1)
			apistub.Fail(w, http.StatusUnauthorized, "Unauthorized", "who are you")
			return
		}
		stub.ServeHTTP(w, r)
	}))
	_ = api.Listener.Close()
	api.Listener, api.EnableHTTP2 = listener, true
	api.StartTLS()
	t.Cleanup(func() { stub.CloseWatches(); api.CloseClientConnections(); api.Close() })

	dir := t.TempDir()
	archive, err := txtar.ParseFile("corefile/testdata/good-kubeadm.txtar")
	if err != nil || archive.Files[0].Name != "Corefile" {
		t.Fatalf("the Corefile: %v", err)
	}
	writeFile(t, filepath.Join(dir, "Corefile"), string(archive.Files[0].Data))
	writeFile(t, filepath.Join(dir, "token"), "of-the-pod")
	writeFile(t, filepath.Join(dir, "ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})))
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cmd := program(context.Background(), t, dir)
	cmd.Args = []string{"unshare", "--mount", "sh", "-c", asPod, cmd.Path}
	if cmd.Path, err = exec.LookPath("unshare"); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT="+port)
	p := launch(t, dir, cmd)
	p.waitReady()

	if got := askHere(t, "kubernetes.default.svc.cluster.local."); got != "10.96.0.1" {
		t.Errorf("kubernetes.default: %q", got)
	}
	stub.Put(apistub.Service("default", "new", "10.96.0.30"))
	deadline := time.Now().Add(10 * time.Second)
	for askHere(t, "new.default.svc.cluster.local.") != "10.96.0.30" {
		if time.Now().After(deadline) {
			t.Fatal("a new Service doesn't come")
		}
	}
	if n := strangers.Load(); n > 0 {
		t.Errorf("%d requests without the service account", n)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

// askHere asks the server on port 53 of this namespace for an address.
func askHere(t *testing.T, name string) string {
	t.Helper()
	conn, err := net.Dial("udp", "127.0.0.1:53") // here: in the namespace
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	reply, _, err := new(dns.Client).ExchangeWithConn(new(dns.Msg).SetQuestion(name, dns.TypeA), &dns.Conn{Conn: conn})
	if err != nil {
		t.Fatal(err)
	}
	var data []string
	for _, rr := range reply.Answer {
		data = append(data, rr.(*dns.A).A.String())
	}
	return strings.Join(data, " ")
}
