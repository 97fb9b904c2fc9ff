package viptest

import (
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// NeedRoot skips the test, and says why, where there is no root to make network
// namespaces and rules; with REQUIRE_KERNEL in the environment it fails it.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("REQUIRE_KERNEL") != "" {
		t.Fatal("needs root to make a network namespace")
	}
	t.Skip("needs root to make a network namespace")
}

// InNamespace moves the test's goroutine into a network namespace of its own,
// with the loopback device up, until the test ends. The test must not be
// parallel to itself: sockets opened by other goroutines are elsewhere.
func InNamespace(t testing.TB) {
	t.Helper()
	NeedRoot(t)
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		t.Fatalf("finding the present network namespace: %v", err)
	}
	own, err := netns.New()
	if err != nil {
		t.Fatalf("making a network namespace: %v", err)
	}
	t.Cleanup(func() {
		// Where the way back fails, the thread stays locked and ends with its goroutine.
		if err := netns.Set(before); err != nil {
			t.Errorf("returning to the first network namespace: %v", err)
		} else {
			runtime.UnlockOSThread()
		}
		_, _ = own.Close(), before.Close()
	})
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatalf("setting up the loopback device: %v", err)
	}
}
