package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"signpost/integration/lab"
	"signpost/vip/viptest"
)

// node is a node's Corefile: DNS and dataplane, as deploy/daemonset.yaml has it.
const node = `.:53 {
    bind 127.0.0.1
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig KUBECONFIG
    }
    vip {
        mode nftables
        node_name NODE
        cluster_cidr 172.16.0.0/16
        healthz 127.0.0.1:10256
    }
    admin unix://DIR/NODE.sock
}
`

// nodes are the lab's as objects, and a namespace for the test's Services.
const nodes = `apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: v1
kind: Node
metadata: {name: node-a}
spec: {podCIDR: 172.16.85.0/24, podCIDRs: [172.16.85.0/24]}
status: {addresses: [{type: InternalIP, address: 192.168.6.140}]}
---
apiVersion: v1
kind: Node
metadata: {name: node-b}
spec: {podCIDR: 172.16.58.0/24, podCIDRs: [172.16.58.0/24]}
status: {addresses: [{type: InternalIP, address: 192.168.6.141}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pod-a, namespace: demo, labels: {app: echo}}
spec: {terminationGracePeriodSeconds: 0, nodeName: node-a, containers: [{name: c, image: none}]}
status: {phase: Running, podIP: 172.16.85.10, podIPs: [{ip: 172.16.85.10}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pod-c, namespace: demo, labels: {app: echo}}
spec: {terminationGracePeriodSeconds: 0, nodeName: node-b, containers: [{name: c, image: none}]}
status: {phase: Running, podIP: 172.16.58.10, podIPs: [{ip: 172.16.58.10}], conditions: [{type: Ready, status: "True"}]}`

// site is a lab whose nodes follow a real API server.
type site struct {
	*lab.Lab
	*cluster
	t *testing.T
}

// TestDataplane runs a dataplane by what the API server says, on a node with all
// rights of deploy/rbac.yaml and on one whose account may not see ServiceCIDRs.
func TestDataplane(t *testing.T) {
	viptest.NeedRoot(t)
	c := newCluster(t)
	token := c.grant()
	older := c.olderAccount()
	topology := lab.Default(false)
	topology.Routes = nil // what a node does not take for itself leads nowhere
	l, err := lab.New(t.Context(), topology, lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("closing the lab: %v", err)
		}
	})
	s := &site{l, c, t}
	c.apply(t, nodes)
	first, second := s.signpost("node-a", token), s.signpost("node-b", older)
	for host, p := range map[string]*lab.Process{"node-a": first, "node-b": second} {
		s.await(host, p)
	}
	t.Run("B12 L1: a name is there when its address works, and not before", s.testGate)
	t.Run("F-16: the API server tells the service ranges", s.testRanges)
	t.Run("F-16: without the right to see them", func(t *testing.T) { s.testNoRanges(t, second) })
	t.Run("L-01: connections go on while the API server is away", s.testAway)
	for _, r := range c.requests(account) {
		if r.Status.Code == http.StatusForbidden {
			t.Errorf("deploy/rbac.yaml lacks a right: %s %s", r.Verb, r.RequestURI)
		}
	}
}

// olderAccount has the rights of a deploy/rbac.yaml without ServiceCIDRs.
func (c *cluster) olderAccount() (token string) {
	c.t.Helper()
	const older = "signpost-older"
	c.apply(c.t, strings.ReplaceAll(`apiVersion: v1
kind: ServiceAccount
metadata: {name: NAME, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME}
rules:
- {apiGroups: [""], resources: [services, namespaces, nodes], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME}
subjects: [{kind: ServiceAccount, name: NAME, namespace: kube-system}]`, "NAME", older))
	return c.token(older, watching("", "services"), watching("", "nodes"), watching("discovery.k8s.io", "endpointslices"))
}

// signpost starts the program on a node. Its way to the API server is a relay
// that listens there.
func (s *site) signpost(host, token string) *lab.Process {
	s.t.Helper()
	listener, err := s.Listen(s.t.Context(), host, "127.0.0.1:6443")
	if err != nil {
		s.t.Fatal(err)
	}
	way := newRelay(s.t, s.port)
	way.serve(listener)
	kubeconfig := s.kubeconfig(host, "https://127.0.0.1:6443", "token: "+token)
	binary, err := lab.Binary(s.t.Context(), s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := s.Signpost(s.t.Context(), host, binary, strings.NewReplacer("KUBECONFIG", kubeconfig, "NODE", host, "DIR", s.Dir).Replace(node))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("signpost on %s:\n%s", host, tail(p.Output()))
		}
	})
	return p
}

func (s *site) await(host string, p *lab.Process) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.Await(ctx, host, "http://127.0.0.1:8181/ready", p); err != nil {
		s.t.Fatal(err)
	}
}

// talk connects from a host to an address and returns the first line that comes.
func (s *site) talk(host, address string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Second)
	defer cancel()
	conn, err := s.Dial(ctx, host, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// lookUp asks the node's own name server.
func (s *site) lookUp(host, name string) string {
	s.t.Helper()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return s.Dial(ctx, host, network, "127.0.0.1:53")
	}}
	list, err := resolver.LookupHost(s.t.Context(), name)
	if err != nil {
		return ""
	}
	return strings.Join(list, ",")
}

func echo(name, address string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: demo}\n" +
		"spec: {clusterIP: " + address + ", selector: {app: echo}, ports: [{name: http, port: 80, targetPort: 8080}]}"
}

// testGate makes Services one after the other, each with endpoints that are there
// before it, and connects at the moment that its name can be looked up.
func (s *site) testGate(t *testing.T) {
	for i := range 10 {
		name, address := fmt.Sprintf("gate%d", i), fmt.Sprintf("10.96.3.%d", i+1)
		s.apply(t, strings.ReplaceAll(`apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: NAME-1, namespace: demo, labels: {kubernetes.io/service-name: NAME}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [172.16.85.10], nodeName: node-a}, {addresses: [172.16.58.10], nodeName: node-b}]`, "NAME", name))
		s.apply(t, service(name, address))
		eventually(t, "the name "+name, func() bool { return s.lookUp("node-a", name+".demo.svc.cluster.local.") == address })
		if _, err := s.talk("node-a", address+":80"); err != nil {
			t.Errorf("%s is answered and does not work: %v", name, err)
		}
	}
}

// refused reports whether an address is refused at once.
func (s *site) refused(host, address string) bool {
	_, err := s.talk(host, address)
	return errors.Is(err, syscall.ECONNREFUSED)
}

func (s *site) testRanges(t *testing.T) {
	if !s.refused("node-a", "10.96.200.200:80") || !s.refused("pod-a", "10.96.200.200:80") {
		t.Error("an address of the API server's range that no Service has is not refused")
	}
	if s.refused("node-a", "10.111.0.5:80") {
		t.Error("an address outside of the ranges is refused before it is in one")
	}
	s.apply(t, "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: more}\nspec: {cidrs: [10.111.0.0/16]}")
	eventually(t, "a refusal in the new range", func() bool { return s.refused("pod-a", "10.111.0.5:80") })
	eventually(t, "a Service in the new range", func() bool { // the API server takes its time with ranges, too
		status, _, err := s.do(http.MethodPatch, services+"/more?fieldManager=test&force=true", "application/apply-patch+yaml", []byte(echo("more", "10.111.0.6")))
		return err == nil && status < http.StatusBadRequest
	})
	eventually(t, "its address", func() bool { _, err := s.talk("pod-a", "10.111.0.6:80"); return err == nil })
	s.remove(t, services+"/more", "/apis/networking.k8s.io/v1/servicecidrs/more")
}

func (s *site) testNoRanges(t *testing.T, p *lab.Process) {
	eventually(t, "a Service on the other node", func() bool { _, err := s.talk("pod-c", "10.96.3.1:80"); return err == nil })
	if s.refused("node-b", "10.96.200.200:80") {
		t.Error("an address without a Service is refused where nobody tells the ranges")
	}
	if n := strings.Count(p.Output(), "servicecidrs.networking.k8s.io is forbidden"); n != 1 || strings.Contains(p.Output(), "level=ERROR") {
		t.Errorf("%d lines about the missing right, want one and no error:\n%s", n, p.Output())
	}
	for _, r := range s.requests("signpost-older") {
		if r.Status.Code >= 400 && r.ObjectRef.Resource != "servicecidrs" {
			t.Errorf("%s %s: status %d", r.Verb, r.RequestURI, r.Status.Code)
		}
	}
}

func (s *site) testAway(t *testing.T) {
	s.apiserver.kill()
	for range 20 {
		if _, err := s.talk("pod-a", "10.96.3.1:80"); err != nil {
			t.Errorf("while the API server is away: %v", err)
		}
	}
	s.start()
	s.apply(t, echo("back", "10.96.3.50"))
	eventually(t, "a Service after the outage", func() bool { _, err := s.talk("pod-a", "10.96.3.50:80"); return err == nil })
	if !s.refused("node-a", "10.96.200.200:80") {
		t.Error("after the outage, the range is not refused any more")
	}
}
