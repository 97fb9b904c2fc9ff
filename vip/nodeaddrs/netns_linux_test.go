package nodeaddrs

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

const inNamespace = "SIGNPOST_TEST_IN_NAMESPACE"

// TestHostEvents adds an address to an interface of a network namespace of its
// own, in which it runs itself again, and waits for the node to have it (F-25).
func TestHostEvents(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		addAddress(t)
		return
	}
	t.Parallel()
	if out, err := exec.Command("unshare", "-rn", "true").CombinedOutput(); err != nil {
		if os.Getenv("REQUIRE_KERNEL") != "" {
			t.Fatalf("making a network namespace: %v: %s", err, out)
		}
		t.Skipf("making a network namespace: %v: %s", err, out)
	}
	again := exec.Command("unshare", "-rn", os.Args[0], "-test.run=^TestHostEvents$", "-test.v")
	again.Env = append(os.Environ(), inNamespace+"=1")
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
}

func addAddress(t *testing.T) {
	s, err := New(Config{Name: "n1", Store: synced(), Mode: "ipvs"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pollFallback)
	defer cancel()
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	<-s.Changed(nil)
	link, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	want := netip.MustParseAddr("192.0.2.7")
	started := time.Now()
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: netlink.NewIPNet(want.AsSlice())}); err != nil {
		t.Fatal(err)
	}
	for n := s.Current(); !slices.Contains(n.NodePortAddrs, want); n = s.Current() {
		select {
		case <-ctx.Done():
			t.Fatalf("node port addresses: got %v, want %s among them", n.NodePortAddrs, want)
		case <-s.Changed(n):
		}
	}
	t.Logf("known after %s", time.Since(started))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
