package dnsserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRecords checks that the list is what the naive zone holds, pods aside.
func TestRecords(t *testing.T) {
	t.Parallel()
	w := newRandomWorld(42)
	c, _ := newTestCluster(t, propertyConfig)
	for range 10 {
		c.update(w.step())
	}
	var got, want []string
	for r := range c.Records() {
		switch r.Type {
		case "SOA":
			r.Data = ""
		case "SRV":
			r.Data = strings.Join(strings.Fields(r.Data)[2:], " ") // without priority and weight
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Name, r.Type, r.Data)))
	}
	for name, records := range newNaiveZone(c.view.Load().snap).records {
		for r := range records {
			if !strings.HasSuffix(name, ".pod.cluster.local.") {
				want = append(want, name+" "+r)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for range c.Records() {
		break // yields no more after it was told to stop
	}
}
