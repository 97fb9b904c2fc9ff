package main

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const udpManifests = `apiVersion: v1
kind: Service
metadata: {name: dns, namespace: default}
spec:
  clusterIP: 10.96.0.53
  ports: [{name: dns, port: 53, protocol: UDP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dns-1, namespace: default, labels: {kubernetes.io/service-name: dns}}
addressType: IPv4
ports: [{name: dns, port: 5301, protocol: UDP}]
endpoints: [{addresses: [192.0.2.1], nodeName: n1}]
`

// serveDatagrams answers every datagram with a name.
func serveDatagrams(t *testing.T, address, name string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 512)
		for {
			_, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if _, err := conn.WriteTo([]byte(name), from); err != nil {
				return
			}
		}
	}()
}

// TestStaleUDP is what a client sees that goes on sending from one port while
// the endpoints change (F-17).
func TestStaleUDP(t *testing.T) {
	dir := newKernelFolder(t)
	writeFile(t, filepath.Join(dir, "manifests", "dns.yaml"), udpManifests)
	for name, address := range map[string]string{"one": "192.0.2.1:5301", "two": "192.0.2.1:5302"} {
		serveDatagrams(t, address, name)
	}
	p := startProcess(t, dir)
	client, err := net.Dial("udp", "10.96.0.53:53")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	p.untilUDP(client, "one", 10*time.Second)
	p.rewrite("manifests/dns.yaml", "port: 5301", "port: 5302")
	p.untilUDP(client, "two", 2*time.Second) // B49
	p.rewrite("manifests/dns.yaml", "nodeName: n1}", "nodeName: n1, conditions: {ready: false, serving: false}}")
	p.untilUDP(client, "refused", 2*time.Second) // B51
	p.rewrite("manifests/dns.yaml", "conditions: {ready: false, serving: false}", "conditions: {ready: true}")
	p.untilUDP(client, "two", 2*time.Second) // k/k#48370

	p.end(syscall.SIGKILL)
	again := startProcess(t, dir)
	again.untilUDP(client, "two", time.Second) // B53
	writeFile(t, filepath.Join(dir, "manifests", "dns.yaml"), "# nothing\n")
	again.untilUDP(client, "refused", 2*time.Second) // B52, F-16
}

// untilUDP sends until the answer is the one that is wanted.
func (p *process) untilUDP(client net.Conn, want string, limit time.Duration) {
	p.t.Helper()
	buffer := make([]byte, 512)
	got := ""
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		_ = client.SetDeadline(time.Now().Add(20 * time.Millisecond)) // an error shows in the next step
		_, err := client.Write([]byte("?"))
		n := 0
		if err == nil {
			n, err = client.Read(buffer)
		}
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			got = "refused"
		case err != nil:
			got = err.Error()
		default:
			got = string(buffer[:n])
		}
		if got == want {
			return
		}
	}
	p.t.Errorf("the last answer is %q, want %q within %s", got, want, limit)
}
