package iptables

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"signpost/vip"
	"signpost/vip/viptest"
)

var testNode = &vip.Node{
	Name: "node", Detector: vip.Detector{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")}},
	ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
}

// variants are the two kinds of iptables; each test runs with both.
var variants = []variant{nftVariant, legacyVariant}

func forEachVariant(t *testing.T, test func(t *testing.T, v variant)) {
	for _, v := range variants {
		t.Run(string(v), func(t *testing.T) {
			viptest.InNamespace(t)
			test(t, v)
		})
	}
}

func newBackend(t testing.TB, v variant) *Backend {
	return New(Config{Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), Variant: string(v)})
}

func mustApply(t testing.TB, b *Backend, have, want *vip.State) {
	t.Helper()
	if err := b.Apply(context.Background(), have, want); err != nil {
		t.Fatal(err)
	}
}

// dump returns everything that a variant holds, in both families.
func dump(t testing.TB, v variant) string {
	t.Helper()
	var text strings.Builder
	for _, f := range []*family{ip4, ip6} {
		for _, name := range tables {
			out, err := exec.Command(command(f, v, "-save"), "-t", name.String()).Output()
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(out)) {
				if !strings.HasPrefix(line, "#") {
					text.WriteString(line)
				}
			}
		}
	}
	return text.String()
}

func world(t testing.TB, text string) *vip.State {
	t.Helper()
	w, err := viptest.ParseWorld(text)
	if err != nil {
		t.Fatal(err)
	}
	return vip.Planner{}.Plan(w.Snapshot, w.Node)
}

func TestProbe(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		if err := newBackend(t, v).Probe(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Random clusters: the kernel holds the same whether a state was reached step
// by step or written at once, and a second look writes nothing (idempotence).
func TestIncrementalEqualsFresh(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		random := viptest.Rand(t)
		churn, b := viptest.NewChurn(random), newBackend(t, v)
		node := churn.Node()
		var have *vip.State
		for step := range 15 {
			if random.IntN(6) == 0 {
				node = churn.Node()
			}
			want := vip.Planner{}.Plan(churn.Step(), node)
			mustApply(t, b, have, want)
			have = want
			if step%5 != 4 {
				continue
			}
			incremental := dump(t, v)
			looking := newBackend(t, v)
			mustApply(t, looking, nil, want)
			if writes := looking.planes[0].writes + looking.planes[1].writes; writes != 0 {
				t.Fatalf("adopting wrote %d times", writes)
			}
			if err := newBackend(t, v).Cleanup(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := dump(t, v); strings.Contains(left, "SIGNPOST") {
				t.Fatalf("after cleanup:\n%s", left)
			}
			b = newBackend(t, v)
			mustApply(t, b, nil, want)
			sameRules(t, incremental, dump(t, v))
		}
	})
}

// sameRules compares dumps; the order of chains is their history's.
func sameRules(t *testing.T, a, b string) {
	t.Helper()
	x, y := byChain(a), byChain(b)
	for name := range x {
		if x[name] != y[name] {
			t.Fatalf("chain %s:\n%s\nand\n%s", name, x[name], y[name])
		}
		delete(y, name)
	}
	if len(y) > 0 {
		t.Fatalf("more: %v", y)
	}
}

func byChain(text string) map[string]string {
	chains, section := map[string]string{}, 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "*"):
			section++
		case strings.HasPrefix(line, ":"):
			chains[fmt.Sprint(section, fields[0])] += ""
		case strings.HasPrefix(line, "-A"):
			chains[fmt.Sprint(section, ":", fields[1])] += line
		}
	}
	return chains
}
