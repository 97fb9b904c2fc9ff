package viptest_test

import (
	"fmt"
	"testing"

	"signpost/vip"
	"signpost/vip/viptest"
)

func TestFakeDiff(t *testing.T) {
	t.Parallel()
	plan := func(text string) *vip.State {
		w, err := viptest.ParseWorld(text)
		if err != nil {
			t.Fatal(err)
		}
		return vip.Planner{}.Plan(w.Snapshot, w.Node)
	}
	const web = "service a/web ips=10.0.0.1 ports=:80\nslice web-1 ports=:80\nendpoint 10.1.0.1\n"
	fake, first := viptest.NewFake(), plan(web+"service a/old ips=10.0.0.3 ports=:80\n")
	if err := fake.Apply(t.Context(), nil, first); err != nil {
		t.Fatal(err)
	}
	for want, text := range map[*vip.State]string{
		first: "[]",
		plan(web + "endpoint 10.1.0.2\nservice a/new ips=10.0.0.2 ports=:80\n"): "[~ 10.0.0.1:80/TCP a/web: its rule is another one + 10.0.0.2:80/TCP a/new: is missing - 10.0.0.3:80/TCP: nobody wants it]",
	} {
		got, err := fake.Diff(t.Context(), want)
		if err != nil || fmt.Sprint(got) != text {
			t.Errorf("got %v, %v\nwant %s", got, err, text)
		}
	}
}
