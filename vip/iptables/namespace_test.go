package iptables

import (
	"runtime"
	"testing"

	"github.com/vishvananda/netns"
)

// inThisNamespace runs f in a goroutine, in the network namespace of the caller.
func inThisNamespace(t *testing.T, f func()) {
	t.Helper()
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // and never given back: the thread ends with the goroutine
		err := netns.Set(here)
		entered <- err
		if err == nil {
			f()
		}
	}()
	if err := <-entered; err != nil {
		t.Fatal(err)
	}
	_ = here.Close()
}
