package ipvs

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nodeAddresses gives the namespace the addresses that the tests' node has.
func nodeAddresses(t *testing.T) {
	t.Helper()
	for _, words := range []string{
		"ip link add node0 type dummy", "ip link set node0 up",
		"ip addr add 192.168.6.1/24 dev node0", "ip addr add fd00:6::1/64 dev node0 nodad",
	} {
		command(t, strings.Fields(words)...)
	}
}

// TestKernelYields has the node's own connections come from its own addresses,
// and then from the cluster addresses again.
func TestKernelYields(t *testing.T) {
	inKernel(t)
	nodeAddresses(t)
	b, want := kernelBackend(t, Config{}), plan(t, kernelWorld)
	mustApply(t, b, nil, want)
	whole := held(t)
	for range 2 { // it can be repeated
		if err := b.Yield(t.Context()); err != nil {
			t.Fatal(err)
		}
		for to, source := range map[string]string{"10.96.0.7": "192.168.6.1", "fd00:96::7": "fd00:6::1"} {
			if route := command(t, "ip", "route", "get", to); !strings.Contains(route, "local "+to) || !strings.Contains(route, "src "+source) {
				t.Errorf("X22 this node's way to %s, want it from %s:\n%s", to, source, route)
			}
			// Connections that exist come from the address itself.
			if route := command(t, "ip", "route", "get", to, "from", to); !strings.Contains(route, "local "+to) {
				t.Errorf("X22 the way of a connection from %s to itself:\n%s", to, route)
			}
		}
	}
	mustApply(t, b, nil, want)
	if diff := cmp.Diff(whole, held(t)); diff != "" {
		t.Errorf("X22 serving again (-before +after):\n%s", diff)
	}
}

// TestKernelYieldsByRoutes is the same where the kernel has no dummy device.
func TestKernelYieldsByRoutes(t *testing.T) {
	inKernel(t)
	nodeAddresses(t)
	r, err := openRoutes()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for _, pair := range [][2]string{{"10.96.0.7", "192.168.6.1"}, {"fd00:96::7", "fd00:6::1"}} {
		to, source := netip.MustParseAddr(pair[0]), netip.MustParseAddr(pair[1])
		if err := r.bind(to); err != nil {
			t.Fatal(err)
		}
		before := command(t, "ip", "route", "show", "table", "all", "proto", "84")
		if err := r.yield(to, source); err != nil {
			t.Fatal(err)
		}
		if route := command(t, "ip", "route", "get", pair[0]); !strings.Contains(route, "src "+pair[1]) {
			t.Errorf("X22 this node's way to %s:\n%s", to, route)
		}
		if err := r.rebind(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, command(t, "ip", "route", "show", "table", "all", "proto", "84")); diff != "" {
			t.Errorf("X22 serving again (-before +after):\n%s", diff)
		}
		if err := r.unbind(to); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKernelDrainsNothing has a mode without connections make way: at once
// nothing is left, of whichever process.
func TestKernelDrainsNothing(t *testing.T) {
	inKernel(t)
	nodeAddresses(t)
	empty := held(t)
	b := kernelBackend(t, Config{})
	mustApply(t, b, nil, plan(t, kernelWorld))
	if err := b.Yield(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := kernelBackend(t, Config{})
	if carries, err := other.Quiesce(t.Context()); err != nil || !carries {
		t.Errorf("X22 making way: %v, %v", carries, err)
	}
	if err := other.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(empty, held(t)); diff != "" {
		t.Errorf("X22 left (-before +after):\n%s", diff)
	}
}
