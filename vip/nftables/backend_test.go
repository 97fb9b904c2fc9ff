package nftables

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"signpost/vip"
)

var testNode = &vip.Node{Name: "node", Detector: vip.Detector{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")}}}

// inNamespace moves the test's thread into a network namespace of its own.
func inNamespace(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("REQUIRE_KERNEL") != "" {
			t.Fatal("needs root to make a network namespace")
		}
		t.Skip("needs root to make a network namespace")
	}
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Set(before); err != nil {
			t.Error(err)
		}
		_, _ = ns.Close(), before.Close()
		runtime.UnlockOSThread()
	})
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
}

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
	inNamespace(t)
	if err := newBackend(t).Probe(t.Context()); err != nil {
		t.Error(err)
	}
}
