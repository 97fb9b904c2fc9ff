package viptest_test

import (
	"context"
	"fmt"

	"signpost/vip"
	"signpost/vip/viptest"
)

// A service with a Local policy, seen from a node that has none of its
// endpoints: what the plan means, and what the fake does.
func ExampleExpect() {
	world, err := viptest.ParseWorld(`
node n1 addrs=192.168.6.1 pods=172.16.0.0/16
service default/web type=LoadBalancer ips=10.96.0.7 lb=203.0.113.9 ports=80 etp=Local hc=32000
slice a ports=8080
endpoint 172.16.2.1 node=n2
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	state := vip.Planner{}.Plan(world.Snapshot, world.Node)
	fake := viptest.NewFake()
	if err := fake.Apply(context.Background(), nil, state); err != nil {
		fmt.Println(err)
		return
	}
	to, _ := vip.ParseFrontend("203.0.113.9:80")
	pod, _ := vip.ParseFrontend("172.16.1.1:1")
	client, _ := vip.ParseFrontend("198.51.100.1:1")
	for _, p := range []viptest.Packet{
		{Source: vip.FromPod, From: pod.Addr, To: to},
		{Source: vip.FromOutside, From: client.Addr, To: to},
	} {
		fmt.Printf("%s: %s, want %s\n", p, fake.Connect(p), viptest.Expect(state, p).Action)
	}
	// Output:
	// pod 172.16.1.1 -> 203.0.113.9:80/TCP: forward to 172.16.2.1:8080, want forward
	// outside 198.51.100.1 -> 203.0.113.9:80/TCP: drop, want drop
}
