package convert

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"signpost/discovery"
)

func TestPod(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       discovery.Pod
	}{
		{
			"every field", `
metadata: {name: db-0, namespace: shop, uid: u-1, creationTimestamp: "2026-01-02T03:04:05Z", deletionTimestamp: "2026-01-02T03:04:06Z", labels: {app: db}}
spec: {nodeName: node-1, hostNetwork: true, containers: []}
status: {phase: Running, podIP: 172.16.0.1, podIPs: [{ip: 172.16.0.1}, {ip: "FD00::1"}], conditions: [{type: Initialized, status: "False"}, {type: Ready, status: "True"}]}`,
			discovery.Pod{
				Key: discovery.Key{Namespace: "shop", Name: "db-0"}, UID: "u-1", Addrs: addrs("172.16.0.1", "fd00::1"),
				Node: "node-1", HostNetwork: true, Phase: "Running", Ready: true, Terminating: true,
				Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Labels: map[string]string{"app": "db"},
			},
		},
		{"nothing", `{}`, discovery.Pod{}},
		{"only podIP", `status: {podIP: 172.16.0.1}`, discovery.Pod{Addrs: addrs("172.16.0.1")}},
		{"X10 bad addresses", `status: {podIP: x, podIPs: [{ip: x}, {ip: ""}, {ip: 172.16.0.1}, {ip: 172.16.0.1}]}`, discovery.Pod{Addrs: addrs("172.16.0.1")}},
		{"E-03 not ready", `status: {conditions: [{type: Ready, status: Unknown}]}`, discovery.Pod{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{}
			merge(t, pod, c.text)
			if diff := cmp.Diff(&c.want, Pod(pod), compareAddrs); diff != "" {
				t.Errorf("model (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       discovery.Node
	}{
		{
			"every field", `
metadata: {name: node-1, labels: {topology.kubernetes.io/zone: a}}
spec: {podCIDR: 10.244.0.0/24, podCIDRs: [10.244.0.0/24, "fd00::/64"]}
status: {addresses: [{type: ExternalIP, address: 203.0.113.1}, {type: Hostname, address: node-1}, {type: InternalIP, address: 192.168.0.1}, {type: InternalIP, address: "fd01::1"}]}`,
			discovery.Node{
				Name: "node-1", Zone: "a", Addrs: addrs("192.168.0.1", "fd01::1", "203.0.113.1"),
				PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00::/64")},
			},
		},
		{"only podCIDR", `spec: {podCIDR: 10.244.0.0/24}`, discovery.Node{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}}},
		{"X10 unusable values", "spec: {podCIDRs: [10.0.0.0/33]}\nstatus: {addresses: [{type: InternalIP, address: x}]}", discovery.Node{}},
		{"L-04 going away", `metadata: {deletionTimestamp: "2026-01-02T03:04:06Z"}`, discovery.Node{Deleting: true}},
		{"L-04 about to be deleted", `spec: {taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]}`, discovery.Node{Deleting: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{}
			merge(t, node, c.text)
			if diff := cmp.Diff(&c.want, Node(node), compareAddrs); diff != "" {
				t.Errorf("model (-want +got):\n%s", diff)
			}
		})
	}
}
