package viptest_test

import (
	"net/netip"
	"testing"

	"signpost/vip"
	"signpost/vip/viptest"
)

// Addresses of the worlds below: a pod on this node, the node, a host outside.
const (
	node    = "192.168.6.1"
	pod     = "172.16.1.9"
	outside = "198.18.0.1"
)

const nodeLine = "node n1 addrs=192.168.6.1 nodeports=192.168.6.1 pods=172.16.0.0/16 services=10.96.0.0/16\n"

type sent struct {
	source vip.Source
	from   string
	to     string
	want   string
}

// TestPackets says in packets what the cases of the bug list mean. Expect and
// the fake have to agree with it.
func TestPackets(t *testing.T) {
	t.Parallel()
	const local = "service a/a type=LoadBalancer ips=10.96.0.7 ports=80->30080 lb=203.0.113.1 external=198.51.100.1 etp=Local hc=32000\nslice a ports=8080\n"
	tests := []struct {
		name, world string
		packets     []sent
	}{
		{"B27 external policy Local: the local pod, with the client's address, by every way in", local + "endpoint 172.16.1.1 node=n1\nendpoint 172.16.2.1 node=n2", []sent{
			{vip.FromOutside, outside, "203.0.113.1:80", "forward to [172.16.1.1:8080]"},
			{vip.FromOutside, outside, "198.51.100.1:80", "forward to [172.16.1.1:8080]"},
			{vip.FromOutside, outside, "192.168.6.1:30080", "forward to [172.16.1.1:8080]"},
		}},
		{"B28 external policy Local, endpoints elsewhere: pods and the node get there, others hear nothing", local + "endpoint 172.16.2.1 node=n2", []sent{
			{vip.FromPod, pod, "203.0.113.1:80", "forward to [172.16.2.1:8080]"},
			{vip.FromNode, node, "203.0.113.1:80", "forward to [172.16.2.1:8080]+snat"},
			{vip.FromOutside, outside, "203.0.113.1:80", "drop"},
			{vip.FromOutside, outside, "192.168.6.1:30080", "drop"},
		}},
		{"B30 internal policy Local without a local endpoint: dropped, not sent elsewhere", "service a/a ips=10.96.0.7 ports=80 itp=Local\nslice a ports=8080\nendpoint 172.16.2.1 node=n2", []sent{
			{vip.FromPod, pod, "10.96.0.7:80", "drop"},
			{vip.FromNode, node, "10.96.0.7:80", "drop"},
		}},
		{"B33 hints of unready endpoints are not followed", "service a/a ips=10.96.0.7 ports=80\nslice a ports=8080\nendpoint 172.16.1.1\nendpoint 172.16.1.2 notready zones=a", []sent{
			{vip.FromPod, pod, "10.96.0.7:80", "forward to [172.16.1.1:8080]"},
		}},
		{"B37 one service's ranges are not another's", "service a/a type=LoadBalancer ips=10.96.0.7 ports=80 lb=203.0.113.1 ranges=10.0.0.0/8\nslice a ports=8080\nendpoint 172.16.1.1\nservice a/b type=LoadBalancer ips=10.96.0.8 ports=80 lb=203.0.113.2\nslice a ports=8080\nendpoint 172.16.1.1", []sent{
			{vip.FromOutside, outside, "203.0.113.1:80", "drop"},
			{vip.FromOutside, "10.1.2.3", "203.0.113.1:80", "forward to [172.16.1.1:8080]+snat"},
			{vip.FromOutside, outside, "203.0.113.2:80", "forward to [172.16.1.1:8080]+snat"},
		}},
		{"B39 ranges keep nodes and pods out, and only of the load-balancer address", "service a/a type=LoadBalancer ips=10.96.0.7 ports=80->30080 lb=203.0.113.1 ranges=203.0.113.0/24\nslice a ports=8080\nendpoint 172.16.1.1", []sent{
			{vip.FromNode, node, "203.0.113.1:80", "drop"},
			{vip.FromPod, pod, "203.0.113.1:80", "drop"},
			{vip.FromPod, pod, "10.96.0.7:80", "forward to [172.16.1.1:8080]"},
			{vip.FromOutside, outside, "192.168.6.1:30080", "forward to [172.16.1.1:8080]+snat"},
		}},
		{"P-18 the node is in the ranges: also with the address itself as its source", "service a/a type=LoadBalancer ips=10.96.0.7 ports=80 lb=203.0.113.1 ranges=192.168.6.0/24\nslice a ports=8080\nendpoint 172.16.1.1", []sent{
			{vip.FromNode, node, "203.0.113.1:80", "forward to [172.16.1.1:8080]+snat"},
			{vip.FromNode, "203.0.113.1", "203.0.113.1:80", "forward to [172.16.1.1:8080]+snat"},
		}},
		{"B41 ranges that can't be used close the address", "service a/a type=LoadBalancer ips=10.96.0.7 ports=80 lb=203.0.113.1 ranges=\nslice a ports=8080\nendpoint 172.16.1.1", []sent{
			{vip.FromOutside, outside, "203.0.113.1:80", "drop"},
			{vip.FromNode, node, "203.0.113.1:80", "drop"},
		}},
		{"B18 a load-balancer address that is the node's: its other ports stay the node's", "service a/a type=LoadBalancer ips=10.96.0.7 ports=80->30080 lb=192.168.6.1\nslice a ports=8080\nendpoint 172.16.1.1", []sent{
			{vip.FromOutside, outside, "192.168.6.1:80", "forward to [172.16.1.1:8080]+snat"},
			{vip.FromOutside, outside, "192.168.6.1:30080", "forward to [172.16.1.1:8080]+snat"},
			{vip.FromOutside, outside, "192.168.6.1:22", "pass"},
		}},
		{"B42 a node port is of one protocol", "service a/a type=NodePort ips=10.96.0.7 ports=53/UDP->30053\nslice a ports=53/UDP\nendpoint 172.16.1.1", []sent{
			{vip.FromOutside, outside, "192.168.6.1:30053/UDP", "forward to [172.16.1.1:53]+snat"},
			{vip.FromOutside, outside, "192.168.6.1:30053", "pass"},
			{vip.FromOutside, outside, "10.96.0.7:30053/UDP", "reject"},
		}},
		{"B58 no endpoints: refused, from everywhere, by every way in", "service a/a type=LoadBalancer ips=10.96.0.7 ports=80->30080 lb=203.0.113.1 etp=Local hc=32000", []sent{
			{vip.FromPod, pod, "10.96.0.7:80", "reject"},
			{vip.FromNode, node, "10.96.0.7:80", "reject"},
			{vip.FromOutside, outside, "192.168.6.1:30080", "reject"},
			{vip.FromOutside, outside, "203.0.113.1:80", "reject"},
		}},
		{"F-07 F-16 other ports: a cluster address refuses, an external one is not ours", "service a/a ips=10.96.0.7 ports=80 external=198.51.100.1\nslice a ports=8080\nendpoint 172.16.1.1", []sent{
			{vip.FromPod, pod, "10.96.0.7:81", "reject"},
			{vip.FromPod, pod, "10.96.0.7:80/UDP", "reject"},
			{vip.FromPod, pod, "10.96.0.99:80", "reject"},
			{vip.FromOutside, outside, "198.51.100.1:22", "pass"},
		}},
		{"P-15 a pod that reaches itself is masqueraded", "service a/a ips=10.96.0.7 ports=80\nslice a ports=8080\nendpoint 172.16.1.9 node=n1", []sent{
			{vip.FromPod, pod, "10.96.0.7:80", "forward to [172.16.1.9:8080]"},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			state, fake := plan(t, nodeLine+test.world), viptest.NewFake()
			apply(t, fake, nil, state)
			for _, s := range test.packets {
				p := viptest.Packet{Source: s.source, From: netip.MustParseAddr(s.from), To: mustFrontend(t, s.to)}
				outcome := viptest.Expect(state, p)
				if got := outcome.String(); got != s.want {
					t.Errorf("expecting of %s: got %s, want %s", p, got, s.want)
				}
				if err := outcome.Check(p, fake.Connect(p)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestOutcomeCheck: the measure itself tells right from wrong.
func TestOutcomeCheck(t *testing.T) {
	t.Parallel()
	a, b := netip.MustParseAddrPort("172.16.1.1:80"), netip.MustParseAddrPort("172.16.1.2:80")
	p := viptest.Packet{From: a.Addr()}
	forward := viptest.Outcome{Action: viptest.Forward, Endpoints: []netip.AddrPort{a}}
	tests := []struct {
		name    string
		outcome viptest.Outcome
		result  viptest.Result
		ok      bool
	}{
		{"P-15 itself, masqueraded", forward, viptest.Result{Action: viptest.Forward, Endpoint: a, SNAT: true}, true},
		{"P-15 itself, not masqueraded", forward, viptest.Result{Action: viptest.Forward, Endpoint: a}, false},
		{"somebody else", forward, viptest.Result{Action: viptest.Forward, Endpoint: b}, false},
		{"refused", forward, viptest.Result{Action: viptest.Reject}, false},
		{"dropped where it should be refused", viptest.Outcome{Action: viptest.Reject}, viptest.Result{Action: viptest.Drop}, false},
		{"refused as it should be", viptest.Outcome{Action: viptest.Reject}, viptest.Result{Action: viptest.Reject}, true},
	}
	for _, test := range tests {
		if err := test.outcome.Check(p, test.result); (err == nil) != test.ok {
			t.Errorf("%s: got error %v, want none: %t", test.name, err, test.ok)
		}
	}
}

// TestParseWorldErrors: a mistake in a test's world is an error, not another world.
func TestParseWorldErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"endpoint 172.16.1.1", "slice a ports=80", "service a/a\nendpoint 172.16.1.1", "service a/a colour=red",
		"service a/a ips=10.0.0", "service a/a ports=80/QUIC", "service a/a ports=x", "node", "pod a", "service a/a etp=Locale",
		"service a/a\nslice s\nendpoint x", "service a/a created=yesterday",
	} {
		if _, err := viptest.ParseWorld(text); err == nil {
			t.Errorf("parsing %q: want an error", text)
		}
	}
}
