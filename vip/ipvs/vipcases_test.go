package ipvs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signpost/vip/sysctl"
)

// TestScaleDown is B04: of nine endpoints in use, two go. They get weight 0 and
// keep their connections; nothing else of the server is touched.
func TestScaleDown(t *testing.T) {
	t.Parallel()
	endpoints := func(n int) string {
		text := "service a/web type=NodePort ips=10.96.0.7 ports=80->30080\nslice a ports=8080\n"
		for i := range n {
			text += fmt.Sprintf("endpoint 172.16.1.%d node=n1\n", i+1)
		}
		return text
	}
	m := newMachine(t)
	b, before, after := m.backend(Config{}), plan(t, endpoints(9)), plan(t, endpoints(7))
	mustApply(t, b, nil, before)
	for _, s := range m.servers {
		for _, d := range s.destinations {
			d.connections = 100
		}
	}
	m.writes()
	mustApply(t, b, before, after)
	got := m.writes()
	slices.Sort(got)
	want := []string{
		"commit 0+ 2-", // that they reach themselves by the service: decided for each connection at its start
		"set 172.16.1.8:8080 of 10.96.0.7:80/TCP to weight 0", "set 172.16.1.8:8080 of 192.168.6.1:30080/TCP to weight 0",
		"set 172.16.1.9:8080 of 10.96.0.7:80/TCP to weight 0", "set 172.16.1.9:8080 of 192.168.6.1:30080/TCP to weight 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was written (-want +got):\n%s", diff)
	}
}

// TestAffinityEnds is B08: without this setting, IPVS keeps a client at an
// endpoint of weight 0 for as long as the affinity lasts.
func TestAffinityEnds(t *testing.T) {
	t.Parallel()
	for _, kernel := range []string{"4.19.0", "6.1.0", ""} {
		if !slices.ContainsFunc(settings(false, kernel), func(s sysctl.Setting) bool {
			return s.Name == "net/ipv4/vs/expire_quiescent_template" && s.Value == 1 && !s.Optional
		}) {
			t.Errorf("kernel %q: templates of endpoints that leave are kept", kernel)
		}
	}
}

// TestDrainClock is X12: how long an endpoint may drain is measured by the
// monotonic clock, whatever becomes of the time of day.
func TestDrainClock(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	b := m.backend(Config{})
	mustApply(t, b, nil, plan(t, web))
	for _, s := range m.servers {
		for _, d := range s.destinations {
			d.connections = 1
		}
	}
	mustApply(t, b, plan(t, web), plan(t, strings.Replace(web, "endpoint 172.16.2.1 node=n2\n", "", 1)))
	if len(b.planes.servers.leaving) != 1 {
		t.Fatalf("%d endpoints are leaving, want 1", len(b.planes.servers.leaving))
	}
	for l, until := range b.planes.servers.leaving {
		if !strings.Contains(until.String(), " m=") {
			t.Errorf("%s leaves until %s, a time of day", l.to, until)
		}
	}
}

// TestProbeReadsBack is B13: a kernel without the module says yes and has nothing.
func TestProbeReadsBack(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	spec := serverSpec{scheduler: "rr"}
	if err := probeServer(t.Context(), fakeKernel{m}, spec); err != nil || len(m.servers) > 0 {
		t.Errorf("a kernel that has IPVS: got %v, and %d servers are left", err, len(m.servers))
	}
	m.hide = func(serverKey) bool { return true }
	if err := probeServer(t.Context(), fakeKernel{m}, spec); err == nil || !strings.Contains(err.Error(), "ip_vs") {
		t.Errorf("a kernel that has not: got %v, want that the module may be missing", err)
	}
}
