package userspace

import (
	"errors"
	"testing"

	"signpost/discovery"
	"signpost/vip"
)

func TestDiff(t *testing.T) {
	b := newBackend(t, Config{})
	f := freeVIP(discovery.TCP)
	first := state(nil, server1(f, echoTCP(t, "one", "127.0.0.1:0")))
	if _, err := b.Diff(t.Context(), first); !errors.Is(err, ErrElsewhere) {
		t.Errorf("before an apply: %v, want %v", err, ErrElsewhere)
	}
	apply(t, b, nil, first)
	two := echoTCP(t, "two", "127.0.0.1:0")
	other := freeVIP(discovery.TCP)
	for _, tt := range []struct {
		name string
		want *vip.State
		diff []string
	}{
		{"none", first, nil},
		{
			"an endpoint more", state(nil, server1(f, first.Get(f).Cluster[0].AddrPort, two)),
			[]string{"~ " + f.String() + " " + first.Get(f).Owner.String() + ": endpoint " + two.String() + " is missing"},
		},
		{"a frontend more, another one less", state(nil, server1(other, two)), nil},
	} {
		list, err := b.Diff(t.Context(), tt.want)
		if err != nil {
			t.Fatal(err)
		}
		if tt.name == "a frontend more, another one less" {
			if len(list) != 2 {
				t.Errorf("%s: %v, want two differences", tt.name, list)
			}
			continue
		}
		var got []string
		for _, d := range list {
			got = append(got, d.String())
		}
		if len(got) != len(tt.diff) || len(got) > 0 && got[0] != tt.diff[0] {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.diff)
		}
	}
}
