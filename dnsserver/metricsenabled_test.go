package dnsserver

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestEnabled checks what is shown as on, before and after a reload.
func TestEnabled(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	cluster, _ := clusterOf(t, ClusterConfig{Zones: []string{"cluster.local"}}, "")
	cfg, _ := forwardTo(constant(t, "192.0.2.1"))
	cfg.Registerer = reg
	cfg.Blocks[0].Zones = []string{".", "Example"}
	cache := DefaultCacheConfig()
	cfg.Blocks[0].Cluster, cfg.Blocks[0].Errors, cfg.Blocks[0].Cache = cluster, true, &cache
	cfg.Blocks = append(cfg.Blocks, Block{Zones: []string{"uncounted."}, Listen: cfg.Blocks[0].Listen, Whoami: true})
	s := startWith(t, cfg, nil)
	shown := func() []string {
		var lines []string
		for line := range strings.Lines(scrape(t, reg)) {
			if strings.HasPrefix(line, "coredns_plugin_enabled{") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return slices.Sorted(slices.Values(lines))
	}
	want := map[string]bool{}
	for _, zone := range []string{".", "example."} {
		for _, name := range []string{"cache", "errors", "forward", "kubernetes", "prometheus"} {
			want[`coredns_plugin_enabled{name="`+name+`",server="dns://127.0.0.1:0",view="",zone="`+zone+`"} 1`] = true
		}
	}
	if got := shown(); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
	cfg.Blocks = []Block{{Zones: []string{"."}, Listen: cfg.Blocks[0].Listen, Metrics: true, Whoami: true}}
	if err := s.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(shown(), "\n"); strings.Count(got, "\n") != 1 || !strings.Contains(got, `name="whoami"`) {
		t.Errorf("L9 after a reload: %s", got)
	}
}
