package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"signpost/discovery"
	"signpost/vip"
)

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func TestNode(t *testing.T) {
	t.Parallel()
	local := addrs("127.0.0.1", "192.0.2.10", "10.0.0.5", "::1", "2001:db8::10", "fe80::1")
	object := &discovery.Snapshot{Nodes: map[string]*discovery.Node{
		"n1": {Name: "n1", Zone: "zone-a", Addrs: addrs("10.0.0.5", "2001:db8::10")},
	}}
	prefixes := func(texts ...string) []netip.Prefix {
		var list []netip.Prefix
		for _, text := range texts {
			list = append(list, netip.MustParsePrefix(text))
		}
		return list
	}
	tests := []struct {
		name      string
		config    NodeConfig
		snapshot  *discovery.Snapshot
		addrs     []netip.Addr
		nodePorts []netip.Addr
	}{
		{"P-21 from the Node object", NodeConfig{Name: "n1", Mode: "ipvs"}, object,
			addrs("10.0.0.5", "2001:db8::10"), addrs("192.0.2.10", "10.0.0.5", "2001:db8::10")},
		{"P-21 without a Node object: the machine's", NodeConfig{Name: "n1", Mode: "ipvs"}, &discovery.Snapshot{},
			addrs("192.0.2.10", "10.0.0.5", "2001:db8::10"), addrs("192.0.2.10", "10.0.0.5", "2001:db8::10")},
		{"P-22 nftables: primary", NodeConfig{Name: "n1", Mode: "nftables"}, object,
			addrs("10.0.0.5", "2001:db8::10"), addrs("10.0.0.5", "2001:db8::10")},
		{"P-22 nftables with networks", NodeConfig{Name: "n1", Mode: "nftables", NodePortAddresses: prefixes("192.0.2.0/24", "2001:db8::/32")}, object,
			addrs("10.0.0.5", "2001:db8::10"), addrs("192.0.2.10", "2001:db8::10")},
		{"P-22 primary by name", NodeConfig{Name: "n1", Mode: "iptables", Primary: true}, object,
			addrs("10.0.0.5", "2001:db8::10"), addrs("10.0.0.5", "2001:db8::10")},
		{"P-22 networks of one family: all of the other", NodeConfig{Name: "n1", Mode: "iptables", NodePortAddresses: prefixes("127.0.0.0/8")}, object,
			addrs("10.0.0.5", "2001:db8::10"), addrs("127.0.0.1", "2001:db8::10")},
		{"O-05 loopback in iptables mode", NodeConfig{Name: "n1", Mode: "iptables"}, object,
			addrs("10.0.0.5", "2001:db8::10"), addrs("127.0.0.1", "192.0.2.10", "10.0.0.5", "2001:db8::10")},
	}
	for _, tt := range tests {
		node := tt.config.Node(tt.snapshot, local)
		want := &vip.Node{Name: "n1", Addrs: tt.addrs, NodePortAddrs: tt.nodePorts}
		if tt.snapshot == object {
			want.Zone = "zone-a"
		}
		if !node.Equal(want) {
			t.Errorf("%s: %+v, want %+v", tt.name, node, want)
		}
	}
	lonely := NodeConfig{Name: "n1"}.Node(&discovery.Snapshot{}, addrs("127.0.0.1", "::1"))
	if len(lonely.Addrs) != 2 || !lonely.Addrs[0].IsLoopback() {
		t.Errorf("P-21 the loopback as the last resort: %v", lonely.Addrs)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	backend, _, err := Choose(t.Context(), "userspace", log)
	if err != nil || backend.Name() != "userspace" {
		t.Fatalf("userspace: %v, %v", backend, err)
	}
	if err := Close(backend); err != nil {
		t.Error(err)
	}
	for mode, want := range map[string]string{
		"kernelspace": "needs Windows", "nonsense": "this build has no such backend: must be one of auto, ",
	} {
		if _, _, err := Choose(t.Context(), mode, log); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mode %s: %v, want %q", mode, err, want)
		}
	}
}

// impossible is a backend that can't run.
type impossible struct{ vip.Backend }

func (impossible) Probe(context.Context) error { return errors.New("no such kernel") }

func TestChooseTriesInOrder(t *testing.T) {
	t.Parallel()
	list := append([]maker{{"impossible", func(*slog.Logger) vip.Backend { return impossible{} }}}, makers...)
	backend, rejected, err := choose(t.Context(), Auto, list, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = Close(backend) }()
	if rejected[0].Mode != "impossible" || rejected[0].Reason.Error() != "no such kernel" {
		t.Errorf("rejected %v", rejected)
	}
	_, _, err = choose(t.Context(), Auto, list[:1], slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "this machine can't run it: mode impossible: no such kernel") {
		t.Errorf("error %v", err)
	}
}
