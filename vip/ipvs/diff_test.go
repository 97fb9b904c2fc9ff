package ipvs

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	b, want := m.backend(Config{}), plan(t, web)
	lines := func() []string {
		t.Helper()
		list, err := b.Diff(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, d := range list {
			lines = append(lines, d.String())
		}
		return lines
	}
	if diff := cmp.Diff([]string{
		"+ table inet signpost-ipvs is missing, or of another shape", "+ 10.96.0.7:80/TCP a/web: is missing",
	}, lines()); diff != "" {
		t.Errorf("against an empty kernel (-want +got):\n%s", diff)
	}
	mustApply(t, b, nil, want)
	if got := lines(); got != nil {
		t.Errorf("against what was applied: got %q", got)
	}
	m.writes()
	s := m.servers[serverKey{frontend: mustFrontend(t, "10.96.0.7:80/TCP")}]
	s.spec.scheduler = "wlc"
	s.destinations[mustAddrPort("172.16.1.1:8080")].weight = 7
	delete(s.destinations, mustAddrPort("172.16.2.1:8080"))
	frontend := mustFrontend(t, "10.96.0.7:80/TCP")
	delete(m.elements, ruleset.Slot{Set: setsOf[ruleset.IPv4].from[vip.FromPod], Key: string(frontendKey(frontend))})
	m.bound[netip.MustParseAddr("10.96.0.99")] = true
	if diff := cmp.Diff([]string{
		"- address 10.96.0.99 is bound and not used",
		"~ 10.96.0.7:80/TCP a/web: endpoint 172.16.1.1:8080 has weight 7 instead of 1",
		"~ 10.96.0.7:80/TCP a/web: endpoint 172.16.2.1:8080 is missing",
		"~ 10.96.0.7:80/TCP a/web: is missing in set ip4-from-pod",
		"~ 10.96.0.7:80/TCP a/web: scheduler and affinity are wlc instead of rr",
	}, lines()); diff != "" {
		t.Errorf("against what was damaged (-want +got):\n%s", diff)
	}
	if got := m.writes(); got != nil {
		t.Errorf("a comparison writes: %q", got)
	}
}
