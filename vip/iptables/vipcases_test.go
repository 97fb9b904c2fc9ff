package iptables

import (
	"net"
	"slices"
	"testing"
	"time"
)

// TestClosedForwarding is B22: where the host forwards nothing by default, what
// is translated is accepted, and its answers.
func TestClosedForwarding(t *testing.T) {
	t.Parallel()
	for _, f := range []*family{ip4, ip6} {
		rules := compiler{family: f, pods: testNode.Detector}.forwarding()
		for _, want := range []string{
			"-m mark --mark 0x4000/0x4000 -j ACCEPT",
			"-m conntrack --ctstate RELATED,ESTABLISHED -m conntrack --ctstate DNAT -j ACCEPT",
		} {
			if !slices.Contains(rules, want) {
				t.Errorf("%s: %q lack %q", f.name(), rules, want)
			}
		}
	}
}

// TestHostPort is B24: a pod's host port does not catch what goes to the same
// port of a cluster address.
func TestHostPort(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		sh(t, with(v, `ip addr add 172.16.1.1/32 dev lo; ip link add up0 type veth peer name up1
			ip addr add 192.168.6.1/24 dev up0; ip link set up0 up; ip link set up1 up; ip route add default dev up0
			IPT -t nat -N HOSTPORT; IPT -t nat -A HOSTPORT -p tcp --dport 80 -j DNAT --to-destination 10.9.9.9:80
			IPT -t nat -A OUTPUT -m addrtype --dst-type LOCAL -j HOSTPORT`))
		listener, err := net.Listen("tcp", "172.16.1.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		mustApply(t, newBackend(t, v), nil, world(t, "node n addrs=192.168.6.1 pods=172.16.0.0/16\nservice a/web ips=10.96.0.1 ports=:80\nslice s ports=:8080\nendpoint 172.16.1.1 node=n\n"))
		conn, err := net.DialTimeout("tcp", "10.96.0.1:80", 5*time.Second)
		if err != nil {
			t.Fatalf("the cluster address: %v", err)
		}
		conn.Close()
	})
}
