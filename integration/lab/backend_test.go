package lab

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/userspace"
)

// A backend in this process works in a node of the lab: its sockets are opened
// in RunIn, and it dials by the lab.
func TestBackendInProcess(t *testing.T) {
	l := build(t, Default(true), Options{})
	backend := userspace.New(userspace.Config{Dial: func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
		return l.Dial(ctx, "node-a", network, to.String())
	}})
	defer backend.Close()

	server := func(frontend string, endpoints ...string) *vip.ServicePlan {
		f, err := vip.ParseFrontend(frontend)
		if err != nil {
			t.Fatal(err)
		}
		v := &vip.VirtualServer{Frontend: f, Owner: discovery.Key{Namespace: "default", Name: frontend}}
		for _, e := range endpoints {
			v.Cluster = append(v.Cluster, vip.Endpoint{AddrPort: netip.MustParseAddrPort(e)})
		}
		return &vip.ServicePlan{Owner: v.Owner, Servers: []*vip.VirtualServer{v}}
	}
	node := &vip.Node{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, NodePortAddrs: l.Topology.Nodes[0].Addrs}
	want := vip.NewState(node,
		server("10.96.0.1:80", "172.16.58.10:80"), server("10.96.0.1:80/UDP", "172.16.85.10:80"),
		server("[fd00:96::1]:80", "[fd00:172:85::11]:80"), server("0.0.0.0:30080", "172.16.85.11:8080"))
	if err := l.RunIn("node-a", func() error { return backend.Apply(t.Context(), nil, want) }); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ from, network, to, says string }{
		{"outside", "tcp", "10.96.0.1:80", "pod pod-c at 172.16.58.10:80, you are 192.168.6.140:"},
		{"pod-a", "tcp", "10.96.0.1:80", "pod pod-c at"},
		{"pod-a", "udp", "10.96.0.1:80", "pod pod-a at"}, // hairpin
		{"node-a", "tcp", "10.96.0.1:80", "pod pod-c at"},
		{"outside", "tcp", "[fd00:96::1]:80", "pod pod-b at [fd00:172:85::11]:80, you are [fd00:6::140]:"},
		{"outside", "tcp", "192.168.6.140:30080", "pod pod-b at 172.16.85.11:8080"},
		{"outside", "tcp", "10.96.0.1:81", "refused"},
		{"pod-b", "tcp", "10.97.3.4:80", "refused"}, // nobody's address (F-16)
	} {
		if got := hear(t, l, test.from, test.network, test.to); !strings.Contains(got, test.says) {
			t.Errorf("%s -> %s/%s: %q, want %q", test.from, test.to, test.network, got, test.says)
		}
	}
	if err := l.RunIn("node-a", func() error { return backend.Cleanup(t.Context()) }); err != nil {
		t.Error(err)
	}
}
