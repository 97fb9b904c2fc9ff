package nftables

import (
	"os/exec"
	"strings"
	"testing"

	"signpost/vip"
	"signpost/vip/viptest"
)

const diffWorld = `
node node addrs=192.0.2.1 nodeports=192.0.2.1 pods=10.128.0.0/9
service a/web type=LoadBalancer ips=10.0.0.1 ports=:80 lb=203.0.113.1 ranges=198.51.100.0/24
slice web-1 ports=:8080
endpoint 10.128.0.1 node=node
endpoint 10.128.0.2
service a/db ips=10.0.0.2 ports=:5432
`

func diffState(t *testing.T, text string) *vip.State {
	t.Helper()
	w, err := viptest.ParseWorld(text)
	if err != nil {
		t.Fatal(err)
	}
	return vip.Planner{}.Plan(w.Snapshot, w.Node)
}

// TestDiff: plan against kernel, without touching it.
func TestDiff(t *testing.T) {
	viptest.InNamespace(t)
	want := diffState(t, diffWorld)
	b := newBackend(t)
	diff := func() string {
		t.Helper()
		list, err := newBackend(t).Diff(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, d := range list {
			lines = append(lines, d.String())
		}
		return strings.Join(lines, "\n")
	}
	expect := func(when, text string) {
		t.Helper()
		if got := diff(); got != strings.TrimSpace(text) {
			t.Errorf("%s:\n%s\nwant:\n%s", when, got, text)
		}
	}
	expect("without a table", `
+ table inet signpost is missing, or of another shape
+ 10.0.0.1:80/TCP a/web: is missing
+ 10.0.0.2:5432/TCP a/db: is missing
+ 203.0.113.1:80/TCP a/web: is missing`)
	mustApply(t, b, nil, want)
	expect("after an apply", "")
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("the other cases need the nft command to disturb the table")
	}
	for _, tt := range []struct{ name, command, want string }{
		{
			"an endpoint is gone", "delete element inet signpost ip4-endpoints { 10.0.0.1 . tcp . 80 . 1 : 10.128.0.2 . 8080 }",
			"~ 10.0.0.1:80/TCP a/web: endpoint 10.128.0.2:8080 is missing",
		},
		{
			"a frontend is gone", "delete element inet signpost ip4-services { 10.0.0.2 . tcp . 5432 }",
			"+ 10.0.0.2:5432/TCP a/db: is missing",
		},
		{
			"a frontend too many", "add element inet signpost ip4-services { 10.0.0.9 . tcp . 80 : goto verdict-reject }",
			"- 10.0.0.9:80/TCP: nobody wants it",
		},
		{
			"a frontend is refused", "delete element inet signpost ip4-services { 10.0.0.1 . tcp . 80 }; add element inet signpost ip4-services { 10.0.0.1 . tcp . 80 : goto verdict-reject }",
			"~ 10.0.0.1:80/TCP a/web: leads to chain verdict-reject instead of ",
		},
		{"a source range is gone", "flush set inet signpost ip4-source-ranges", "~ 203.0.113.1:80/TCP a/web: a source range is missing or another one"},
		{
			"a cluster address is gone", "delete element inet signpost ip4-cluster-ips { 10.0.0.2 }",
			"+ address 10.0.0.2 in set ip4-cluster-ips is missing",
		},
		{"a base chain is empty", "flush chain inet signpost nat-output", "+ chain nat-output is missing, or holds other rules"},
		{"a chain too many", "add chain inet signpost cluster-77", "- chain cluster-77 is not used"},
		{"the table is gone", "delete table inet signpost", "+ table inet signpost is missing, or of another shape"},
	} {
		if out, err := exec.Command("nft", tt.command).CombinedOutput(); err != nil {
			t.Errorf("%s: nft %s: %v: %s", tt.name, tt.command, err, out)
			continue
		}
		before := diff()
		if !strings.Contains("\n"+before, "\n"+tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, before, tt.want)
		}
		if again := diff(); again != before {
			t.Errorf("%s: the second time\n%s\nthe first\n%s", tt.name, again, before)
		}
		mustApply(t, b, nil, want)
		expect(tt.name+", healed", "")
	}
}
