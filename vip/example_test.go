package vip_test

import (
	"context"
	"fmt"
	"net/netip"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// A store, a controller and a backend: a service goes in at the top, and its
// virtual server is in the dataplane.
func Example() {
	store := discovery.NewStore()
	store.Update(func(tx *discovery.Tx) {
		tx.PutService(&discovery.Service{
			Key:        discovery.Key{Namespace: "default", Name: "kubernetes"},
			ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
			Ports:      []discovery.Port{{Name: "https", Port: 443}},
			Slices: []*discovery.Slice{{
				Ports:     []discovery.EndpointPort{{Name: "https", Port: 6443}},
				Endpoints: []discovery.Endpoint{{Addr: netip.MustParseAddr("192.168.6.139"), Ready: true, Serving: true}},
			}},
		})
		tx.MarkSynced()
	})
	node := &vip.Node{Name: "k8s-node01", Addrs: []netip.Addr{netip.MustParseAddr("192.168.6.140")}}
	node.Detector.CIDRs = []netip.Prefix{netip.MustParsePrefix("172.16.0.0/16")}

	controller := vip.NewController(vip.Config{Desired: store, Nodes: vip.NewCell(node), Backend: viptest.NewFake()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- controller.Run(ctx) }()

	for s := controller.Status(); s.Applied == nil; s = controller.Status() {
		<-controller.Changed(s)
	}
	fmt.Print(controller.Status().Applied)
	cancel()
	fmt.Println(<-done)
	// Output:
	// 10.96.0.1:443/TCP default/kubernetes https ClusterIP cluster=[192.168.6.139:6443] pod:cluster node:cluster+snat outside:cluster+snat
	// <nil>
}
