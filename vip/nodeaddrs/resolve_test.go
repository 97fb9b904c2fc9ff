package nodeaddrs

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signpost/discovery"
	"signpost/vip"
)

// host is a machine with two networks, in both families.
var host = machine{
	addrs: []address{
		{netip.MustParseAddr("127.0.0.1"), "lo"},
		{netip.MustParseAddr("::1"), "lo"},
		{netip.MustParseAddr("10.0.0.5"), "eth1"},
		{netip.MustParseAddr("192.168.6.1"), "eth0"},
		{netip.MustParseAddr("fd00:6::1"), "eth0"},
		{netip.MustParseAddr("fe80::1"), "eth0"},
		{netip.MustParseAddr("10.96.0.7"), "kube-ipvs0"},
		{netip.MustParseAddr("203.0.113.9"), "signpost0"},
		{netip.MustParseAddr("10.96.0.8"), "lo"},
	},
	source4: netip.MustParseAddr("192.168.6.1"), source6: netip.MustParseAddr("fd00:6::1"),
}

func object(name, zone string, addrs ...string) *discovery.Node {
	return &discovery.Node{Name: name, Zone: zone, Addrs: list(addrs...)}
}

func list(texts ...string) []netip.Addr {
	var addrs []netip.Addr
	for _, text := range texts {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs
}

func selection(t testing.TB, words ...string) Selection {
	t.Helper()
	s, err := ParseSelection(words)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestResolveAddrs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config Config
		host   machine
		object *discovery.Node
		want   []netip.Addr
	}{
		{"P-21 the Node object's", Config{}, host, object("n1", "", "192.168.6.1", "198.51.100.1", "fd00:6::1"), list("192.168.6.1", "198.51.100.1", "fd00:6::1")},
		{"P-21 a family that the object lacks is the interfaces'", Config{}, host, object("n1", "", "192.168.6.1"), list("192.168.6.1", "fd00:6::1")},
		{"P-21 no object: the interfaces', the default route's first", Config{}, host, nil, list("192.168.6.1", "10.0.0.5", "fd00:6::1")},
		{"P-21 what is configured goes before all", Config{Addrs: list("10.0.0.5")}, host, object("n1", "", "192.168.6.1"), list("10.0.0.5", "fd00:6::1")},
		{"P-21 a machine without a network", Config{}, machine{addrs: host.addrs[:2]}, nil, list("127.0.0.1", "::1")},
		{"X17 IPv6 is switched off", Config{}, machine{addrs: host.addrs[2:4]}, object("n1", "", "192.168.6.1"), list("192.168.6.1")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.config.Name = "n1"
			test.config.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
			f := resolve(test.config, test.host, &discovery.Snapshot{Nodes: nodeMap(test.object)})
			if diff := cmp.Diff(test.want, f.node.Addrs, cmp.Comparer(sameAddr)); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolveNodePorts(t *testing.T) {
	t.Parallel()
	n1 := object("n1", "", "192.168.6.1", "fd00:6::1")
	tests := []struct {
		name, mode string
		words      []string
		object     *discovery.Node
		want       []netip.Addr
		note       string
	}{
		{"P-22 nftables: primary", "nftables", nil, n1, list("192.168.6.1", "fd00:6::1"), ""},
		{"P-22 O-05 iptables: all, localhost in IPv4", "iptables", nil, n1, list("10.0.0.5", "127.0.0.1", "192.168.6.1", "fd00:6::1"), ""},
		{"P-22 ipvs: all but localhost", "ipvs", nil, n1, list("10.0.0.5", "192.168.6.1", "fd00:6::1"), ""},
		{"P-22 userspace: all, localhost too", "userspace", nil, n1, list("10.0.0.5", "127.0.0.1", "192.168.6.1", "::1", "fd00:6::1"), ""},
		{"P-22 primary, asked for", "iptables", []string{"primary"}, n1, list("192.168.6.1", "fd00:6::1"), ""},
		{"P-22 ranges", "nftables", []string{"10.0.0.0/8", "fd00::/8"}, n1, list("10.0.0.5", "fd00:6::1"), ""},
		{"P-22 no range of a family: all of it", "nftables", []string{"10.0.0.0/8"}, n1, list("10.0.0.5", "fd00:6::1"), "no IPv6 range"},
		{"O-05 a range of localhost where that can't work", "nftables", []string{"127.0.0.0/8", "fe80::/10"}, n1, nil, ""},
		{"X17 the object's addresses are another machine's", "nftables", nil, object("n1", "", "192.0.2.1"), list("192.168.6.1", "fd00:6::1"), "not on this machine"},
		{"X17 no object of this name", "nftables", nil, object("other", ""), list("192.168.6.1", "fd00:6::1"), "no Node object has the name n1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := Config{Name: "n1", Mode: test.mode, NodePorts: selection(t, test.words...), ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
			f := resolve(config, host, &discovery.Snapshot{Nodes: nodeMap(test.object)})
			if diff := cmp.Diff(test.want, f.node.NodePortAddrs, cmp.Comparer(sameAddr)); diff != "" {
				t.Errorf("node port addresses (-want +got):\n%s", diff)
			}
			if notes := strings.Join(f.notes, "\n"); !strings.Contains(notes, test.note) || (notes == "") != (test.note == "") {
				t.Errorf("notes: got %q, want %q", notes, test.note)
			}
		})
	}
}

func TestResolveNode(t *testing.T) {
	t.Parallel()
	own := object("n1", "zone-a", "192.168.6.1")
	own.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("172.16.1.0/24")}
	nodes := nodeMap(own)
	nodes["n3"], nodes["n2"] = object("n3", "", "192.168.6.3"), object("n2", "", "192.168.6.2", "fd00:6::2")
	got := resolve(Config{Name: "n1", MasqueradeAll: true, PodCIDRsFromNode: true}, host, &discovery.Snapshot{Nodes: nodes}).node
	if got.Zone != "zone-a" || !got.MasqueradeAll || len(got.Detector.CIDRs) != 1 {
		t.Errorf("node: got %+v", got)
	}
	if diff := cmp.Diff(list("192.168.6.2", "192.168.6.3", "fd00:6::2"), got.PeerAddrs, cmp.Comparer(sameAddr)); diff != "" {
		t.Errorf("other nodes' addresses (-want +got):\n%s", diff)
	}
	configured := vip.Detector{InterfacePrefix: "veth"}
	if got := resolve(Config{Name: "n1", Detector: configured}, host, &discovery.Snapshot{Nodes: nodes}).node.Detector; got.InterfacePrefix != "veth" || got.CIDRs != nil {
		t.Errorf("detector: got %+v, want the one configured", got)
	}
}

func TestParseSelection(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"primary", "10.0.0.0/8"}, {"10.0.0.1"}, {"secondary"}, {"10.0.0.0/33"}} {
		if _, err := ParseSelection(words); err == nil {
			t.Errorf("parsing %v: want an error", words)
		}
	}
}

func nodeMap(n *discovery.Node) map[string]*discovery.Node {
	if n == nil {
		return map[string]*discovery.Node{}
	}
	return map[string]*discovery.Node{n.Name: n}
}

func sameAddr(a, b netip.Addr) bool { return a == b }
