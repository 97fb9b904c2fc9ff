package nftables

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	"signpost/vip"
	"signpost/vip/viptest"
)

var testNode = &vip.Node{Name: "node", Detector: vip.Detector{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")}}}

func newBackend(t testing.TB) *Backend {
	b := New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func mustApply(t testing.TB, b *Backend, have, want *vip.State) {
	t.Helper()
	if err := b.Apply(context.Background(), have, want); err != nil {
		t.Fatal(err)
	}
}

func TestProbe(t *testing.T) {
	viptest.InNamespace(t)
	if err := newBackend(t).Probe(t.Context()); err != nil {
		t.Error(err)
	}
}
