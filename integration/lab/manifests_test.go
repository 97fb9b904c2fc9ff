package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const someManifests = `# two nodes, one without an address
apiVersion: v1
kind: Node
metadata: {name: k8s-master}
status: {addresses: [{type: InternalIP, address: 192.168.6.139}, {type: Hostname, address: k8s-master}]}
---
apiVersion: v1
kind: Node
metadata: {name: no-address}
---
apiVersion: v1
kind: Node
metadata: {name: k8s-node01}
status: {addresses: [{type: InternalIP, address: 192.168.6.140}, {type: InternalIP, address: "fd00::140"}]}
---
kind: Pod
metadata: {name: web, namespace: default}
spec: {nodeName: k8s-node01, containers: [{ports: [{containerPort: 80}, {containerPort: 8443}]}, {ports: [{containerPort: 80}]}]}
status: {phase: Running, podIP: 172.16.85.1, podIPs: [{ip: 172.16.85.1}, {ip: "fd01::1"}]}
---
kind: Pod
metadata: {name: web, namespace: other}
spec: {nodeName: k8s-node01}
status: {phase: Running, podIP: 172.16.85.2}
---
kind: Pod
metadata: {name: done}
spec: {nodeName: k8s-node01}
status: {phase: Succeeded, podIP: 172.16.85.3}
---
kind: Pod
metadata: {name: pending}
spec: {nodeName: k8s-node01}
---
kind: Pod
metadata: {name: lost}
spec: {nodeName: nowhere}
status: {podIP: 172.16.85.4}
---
kind: Pod
metadata: {name: proxy}
spec: {nodeName: k8s-node01, hostNetwork: true, containers: [{ports: [{containerPort: 10256}]}]}
status: {podIP: 192.168.6.140}
---
kind: Endpoints
metadata: {name: kubernetes}
subsets: [{addresses: [{ip: 192.168.6.139}], ports: [{port: 6443}]}]
---
kind: Endpoints
metadata: {name: db}
subsets: [{addresses: [{ip: 10.1.2.3}, {ip: 172.16.85.1}, {ip: nonsense}], ports: [{port: 5432}, {port: 5433}]}]
---
kind: Service
metadata: {name: web}
---
this is: [not yaml
`

func TestFromManifests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	os.MkdirAll(filepath.Join(dir, "sub"), 0o755)
	slice := `{"kind": "EndpointSlice", "metadata": {"name": "db-1"}, "ports": [{"port": 1}, {}], "endpoints": [{"addresses": ["10.1.2.4"]}]}`
	for name, text := range map[string]string{"all.yaml": someManifests, "sub/slice.json": slice, "readme.txt": "kind: Node"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := FromManifests(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.check(); err != nil {
		t.Error(err)
	}
	want := []Pod{
		{Name: "db-1-endpoint", Node: "k8s-master", Addrs: addrs("10.1.2.4"), Ports: []uint16{1}},
		{Name: "db-endpoint", Node: "k8s-master", Addrs: addrs("10.1.2.3"), Ports: []uint16{5432, 5433}},
		{Name: "kubernetes-endpoint", Node: "k8s-master", Addrs: addrs("192.168.6.139"), Ports: []uint16{6443}, HostNetwork: true},
		{Name: "proxy", Node: "k8s-node01", Addrs: addrs("192.168.6.140"), Ports: []uint16{10256}, HostNetwork: true},
		{Name: "web", Node: "k8s-node01", Addrs: addrs("172.16.85.1", "fd01::1"), Ports: []uint16{80, 8443}},
		{Name: "web-2", Node: "k8s-node01", Addrs: addrs("172.16.85.2")},
	}
	same := func(a, b Pod) bool {
		return a.Name == b.Name && a.Node == b.Node && a.HostNetwork == b.HostNetwork && slices.Equal(a.Addrs, b.Addrs) && slices.Equal(a.Ports, b.Ports)
	}
	if !slices.EqualFunc(got.Pods, want, same) {
		t.Errorf("pods:\n%+v\nwant\n%+v", got.Pods, want)
	}
	if len(got.Nodes) != 2 || got.Nodes[1].Name != "k8s-node01" || len(got.Nodes[1].Addrs) != 2 || got.Routes[0].Node != "k8s-master" {
		t.Errorf("nodes %+v, routes %+v", got.Nodes, got.Routes)
	}
	if _, err := FromManifests(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no node") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := FromManifests(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a folder that is not there is no error")
	}
}

// What is written is read back as the same cluster.
func TestManifests(t *testing.T) {
	t.Parallel()
	for _, v6 := range []bool{false, true} {
		dir, want := t.TempDir(), Default(v6)
		if err := want.Manifests(dir); err != nil {
			t.Fatal(err)
		}
		got, err := FromManifests(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range want.Pods {
			if g := got.Pods[i]; g.Name != p.Name || g.Node != p.Node || !slices.Equal(g.Addrs, p.Addrs) || !slices.Equal(g.Ports, p.Ports) {
				t.Errorf("pod %+v, want %+v", g, p)
			}
		}
		for i, n := range want.Nodes {
			if g := got.Nodes[i]; g.Name != n.Name || !slices.Equal(g.Addrs, n.Addrs) {
				t.Errorf("node %+v, want %+v", g, n)
			}
		}
	}
}
