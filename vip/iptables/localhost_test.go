package iptables

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"signpost/vip"
)

// B44, B45, O-05: node ports answer on 127.0.0.1 in IPv4, are refused at once on
// ::1, and the kernel is told to route to localhost only where that is wanted,
// with a rule that keeps others out.
func TestLocalhostNodePort(t *testing.T) {
	const setting = "/proc/sys/net/ipv4/conf/all/route_localnet"
	forEachVariant(t, func(t *testing.T, v variant) {
		sh(t, "ip addr add 172.16.1.1/32 dev lo; ip link add up0 type veth peer name up1; ip addr add 192.168.6.1/24 dev up0; ip link set up0 up; ip link set up1 up")
		listener, err := net.Listen("tcp", "172.16.1.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		const head = "node n addrs=192.168.6.1,fd00:6::1 nodeports=192.168.6.1,LOCAL,fd00:6::1 pods=172.16.0.0/16,fd00:16::/64\n"
		const service = "service a/np type=NodePort ips=10.96.0.1 ports=:80->30080\nslice s ports=:8080\nendpoint 172.16.1.1 node=n\n"
		b := newBackend(t, v)
		elsewhere := world(t, strings.Replace(head, ",LOCAL", "", 1)+service)
		mustApply(t, b, nil, elsewhere)
		if value, err := os.ReadFile(setting); err != nil || string(value) != "0\n" {
			t.Errorf("route_localnet is %q without need (%v)", value, err)
		}
		if dumped := dump(t, v); strings.Contains(dumped, "127.0.0.") {
			t.Errorf("rules for localhost without need:\n%s", dumped)
		}
		mustApply(t, b, elsewhere, world(t, strings.Replace(head, "LOCAL", "127.0.0.1", 1)+service))
		conn, err := net.DialTimeout("tcp", "127.0.0.1:30080", 5*time.Second)
		if err != nil {
			t.Errorf("127.0.0.1: %v", err)
		} else {
			conn.Close()
		}
		if _, err := net.DialTimeout("tcp", "[::1]:30080", time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("::1: %v, want refused", err)
		}
		if dumped := dump(t, v); !strings.Contains(dumped, "-A SIGNPOST-LOCALHOST ! -s 127.0.0.0/8 -d 127.0.0.0/8 ") {
			t.Errorf("nothing keeps others out:\n%s", dumped)
		}
	})
}

// B56: conntrack that lets segments out of the window pass needs no rule that
// drops what it can't place.
func TestLiberalConntrack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings settings
		pods     vip.Detector
		want     bool
	}{
		{settings{}, testNode.Detector, true},
		{settings{liberal: true}, testNode.Detector, false},
		{settings{}, vip.Detector{}, false},
	} {
		rules := compiler{family: ip4, pods: c.pods}.strays(c.settings)
		if got := strings.Contains(strings.Join(rules, "\n"), "INVALID"); got != c.want {
			t.Errorf("%+v, %+v: drops %t", c.settings, c.pods, got)
		}
	}
}
