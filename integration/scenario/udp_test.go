package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// datagrams follows a client that keeps its source port, as QUIC and DNS
// forwarders do: to the kernel it is one connection for ever.
func (c *cluster) datagrams(t *testing.T) {
	c.serveUDP(t, "172.16.58.10")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := c.Dial(ctx, "client", "udp", "10.96.0.53:53")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c.converses(t, conn, "pod constant")

	// B53: a restart forgets no flow.
	c.again(t, func() { _ = c.running["node-a"].Kill() })
	if said, err := exchange(conn); err != nil || !strings.HasPrefix(said, "pod constant") {
		t.Errorf("after a restart: %q, %v", said, err)
	}
	// B49: the endpoint is replaced.
	c.serveUDP(t, "172.16.85.11")
	c.converses(t, conn, "pod second")
	// B51: there is none left.
	c.serveUDP(t)
	c.converses(t, conn, "refused")
	// B52: the Service is gone; nothing leaks to whoever has the address now.
	c.serveUDP(t, "172.16.58.10")
	c.converses(t, conn, "pod constant")
	if err := os.Remove(filepath.Join(c.manifests, "datagrams.yaml")); err != nil {
		t.Fatal(err)
	}
	c.converses(t, conn, "refused")
}

// serveUDP gives the Service of datagrams these endpoints.
func (c *cluster) serveUDP(t *testing.T, addresses ...string) {
	t.Helper()
	text := `apiVersion: v1
kind: Service
metadata: {name: datagrams, namespace: default}
spec: {clusterIP: 10.96.0.53, ports: [{port: 53, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: datagrams, namespace: default, labels: {kubernetes.io/service-name: datagrams}}
addressType: IPv4
ports: [{port: 8080, protocol: UDP}]
endpoints: [`
	for _, a := range addresses {
		text += fmt.Sprintf("{addresses: [%s]},", a)
	}
	next := filepath.Join(c.Dir, "datagrams.yaml")
	err := os.WriteFile(next, []byte(text+"]\n"), 0o644)
	if err = errors.Join(err, os.Rename(next, filepath.Join(c.manifests, "datagrams.yaml"))); err != nil {
		t.Fatal(err)
	}
}

// converses sends datagrams until the answer is as wanted, two seconds at most.
func (c *cluster) converses(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	start := time.Now()
	for {
		said, err := exchange(conn)
		if errors.Is(err, syscall.ECONNREFUSED) {
			said = "refused"
		}
		took := time.Since(start)
		if strings.HasPrefix(said, want) {
			t.Logf("%s after %s", want, took)
			return
		}
		if took > 2*time.Second {
			t.Errorf("after %s: %q, %v, want %s", took, said, err, want)
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

func exchange(conn net.Conn) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(silence)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return "", err
	}
	buf := make([]byte, 256)
	n, err := conn.Read(buf)
	return string(buf[:n]), err
}
