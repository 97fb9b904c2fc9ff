package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signpost/vip/viptest"
)

// The tests in this file run the program in a network namespace of their own,
// with the kernel's dataplane.

const kernelCorefile = `.:0 {
    bind 127.0.0.1
    manifests manifests {
        service_cidr 10.96.0.0/16
        state state.yaml
    }
    kubernetes cluster.local
    vip {
        mode nftables
        node_name n1
        cluster_cidr 10.244.0.0/16
        healthz 127.0.0.1:10256
    }
    prometheus 127.0.0.1:9153
    reload 0
    admin unix://admin.sock
}
`

// kernelManifests has a Service with one endpoint, on this node.
const kernelManifests = `apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  healthCheckNodePort: 32100
  clusterIP: 10.96.0.80
  ports: [{name: http, port: 80, nodePort: 30080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [192.0.2.1], nodeName: n1}]
`

// newKernelFolder moves the test into a network namespace with a node's address,
// a way to everywhere, and the endpoint at work, and makes the folder to serve.
func newKernelFolder(t *testing.T) string {
	t.Helper()
	viptest.InNamespace(t)
	for _, command := range []string{
		"ip link add up0 type veth peer name up1", "ip addr add 192.0.2.1/24 dev up0",
		"ip link set up0 up", "ip link set up1 up", "ip route add default via 192.0.2.254",
	} {
		sh(t, strings.Fields(command)...)
	}
	listener, err := net.Listen("tcp", "192.0.2.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go serveLines(listener)
	dir := newFolder(t)
	writeFile(t, filepath.Join(dir, "Corefile"), kernelCorefile)
	writeFile(t, filepath.Join(dir, "manifests", "web.yaml"), kernelManifests)
	return dir
}

// serveLines answers every line with its own.
func serveLines(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			for in := bufio.NewScanner(conn); in.Scan(); {
				if _, err := fmt.Fprintf(conn, "web %s\n", in.Text()); err != nil {
					return
				}
			}
		}()
	}
}

// sh runs a command in the test's namespace.
func sh(t *testing.T, words ...string) string {
	t.Helper()
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", words, err, out)
	}
	return string(out)
}

// say connects, sends a line and returns the answer, or an error in words.
func say(address string) string {
	conn, err := net.DialTimeout("tcp", address, 3*time.Second)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	return talk(conn)
}

func talk(conn net.Conn) string {
	_ = conn.SetDeadline(time.Now().Add(3 * time.Second)) // an error shows in the next step
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return err.Error()
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// status runs a command and returns its exit status and output.
func (p *process) status(args ...string) (int, string) {
	p.t.Helper()
	out, err := program(p.t.Context(), p.t, p.dir, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	if exit != nil {
		return exit.ExitCode(), string(out)
	}
	return 0, string(out)
}

func (p *process) expect(status int, text string, args ...string) {
	p.t.Helper()
	got, out := p.status(args...)
	if got != status || !strings.Contains(out, text) || text == "" && out != "" {
		p.t.Errorf("signpost %s: status %d, want %d, and %q in\n%s", strings.Join(args, " "), got, status, text, out)
	}
}

// TestKernelDataplane is a life of nftables mode: serve, compare, kill, clean up.
func TestKernelDataplane(t *testing.T) {
	dir := newKernelFolder(t)
	p := startProcess(t, dir)
	for _, address := range []string{"10.96.0.80:80", "192.0.2.1:30080"} {
		if got := say(address); got != "web hello" {
			t.Errorf("%s: %q", address, got)
		}
	}
	if got := say("10.96.0.80:81"); !strings.Contains(got, "refused") {
		t.Errorf("F-16 a port that no service has: %q", got)
	}
	if got := say("10.96.7.7:80"); !strings.Contains(got, "refused") {
		t.Errorf("F-16 an address that no service has: %q", got)
	}
	p.expect(0, "", "vip", "diff")
	p.expect(0, "", "vip", "diff", "--mode", "nftables")
	p.expect(2, "only the running server can tell", "vip", "diff", "--mode", "userspace")
	p.expect(0, "nftables   yes", "version")

	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.reader.Wait()
	if got := say("10.96.0.80:80"); got != "web hello" {
		t.Errorf("L-01 after kill -9: %q", got)
	}
	p.expect(0, "", "vip", "diff")
	sh(t, "nft", "delete element inet signpost ip4-services { 10.96.0.80 . tcp . 80 }")
	p.expect(1, "~ 10.96.0.80:80/TCP default/web: leads nowhere\n", "vip", "diff")
	p.expect(0, "clean", "vip", "cleanup", "--mode", "nftables")
	p.expect(0, "clean", "vip", "cleanup") // L-03 idempotent, all modes
	if tables := sh(t, "nft", "list", "tables"); tables != "" {
		t.Errorf("L-03 after the cleanup: %s", tables)
	}
	p.expect(1, "+ table inet signpost is missing", "vip", "diff")
}
