package iptables

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"signpost/vip"
)

// TestDiff: plan against kernel, without touching it.
func TestDiff(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		want := world(t, "service a/web ips=10.96.0.1 ports=:80\nslice web-1 ports=:8080\nendpoint 10.128.0.1\n"+
			"service a/db ips=10.96.0.2 ports=:5432\n")
		diff := func() string {
			t.Helper()
			list, err := newBackend(t, v).Diff(t.Context(), want)
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, d := range list {
				lines = append(lines, d.String())
			}
			return strings.Join(lines, "\n")
		}
		expect := func(when string, parts ...string) {
			t.Helper()
			got := diff()
			for _, part := range parts {
				if !strings.Contains(got, part) {
					t.Errorf("%s: got\n%s\nwant in it %s", when, got, part)
				}
			}
			if len(parts) == 0 && got != "" {
				t.Errorf("%s: got\n%s\nwant nothing", when, got)
			}
		}
		before := dump(t, v)
		expect("nothing is there", "+ IPv4 table nat: chain "+prefix, ", for 10.96.0.1:80/TCP a/web",
			"~ IPv4 table nat: the jumps into our chains differ")
		if after := dump(t, v); after != before {
			t.Errorf("the comparison has changed the tables:\n%s", after)
		}
		mustApply(t, newBackend(t, v), nil, want)
		expect("after an apply")
		leaf := groupOf(vip.Frontend{Addr: netip.MustParseAddr("10.96.0.1")}).chain()
		for _, args := range []string{"-t nat -F " + leaf, "-t nat -N " + prefix + "OLD", "-t filter -D INPUT 1"} {
			if out, err := exec.CommandContext(t.Context(), command(ip4, v, ""), strings.Fields(args)...).CombinedOutput(); err != nil {
				t.Fatalf("iptables %s: %v: %s", args, err, out)
			}
		}
		expect("after a disturbance", "~ IPv4 table nat: chain "+leaf+" holds other rules, for 10.96.0.1:80/TCP a/web",
			"- IPv4 table nat: chain "+prefix+"OLD is not used", "~ IPv4 table filter: the jumps into our chains differ")
		mustApply(t, newBackend(t, v), nil, want)
		expect("healed")
	})
}
