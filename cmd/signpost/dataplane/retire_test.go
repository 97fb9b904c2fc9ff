package dataplane

import (
	"context"
	"errors"
	"strings"
	"testing"

	"signpost/vip"
)

// draining is a backend that drains, and notes what is done with it.
type draining struct {
	vip.Backend
	carries bool
	err     error
	done    []string
}

func (*draining) Name() string                { return "ipvs" }
func (*draining) Yield(context.Context) error { return nil }
func (*draining) Drain(context.Context) error { return nil }

func (d *draining) Quiesce(context.Context) (bool, error) {
	d.done = append(d.done, "quiesce")
	return d.carries, d.err
}

func (d *draining) Cleanup(context.Context) error {
	d.done = append(d.done, "cleanup")
	return nil
}

func (d *draining) Close() error {
	d.done = append(d.done, "close")
	return nil
}

func TestRetire(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		b    draining
		keep bool
		done string
	}{
		{"X22 with connections", draining{carries: true}, true, "quiesce"},
		{"X22 without connections", draining{}, false, "quiesce cleanup close"},
		{"X22 that can't make way", draining{carries: true, err: errors.New("no answer")}, false, "quiesce cleanup close"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			keep, err := Retire(t.Context(), &test.b, "nftables")
			if keep != test.keep || (err != nil) != (test.b.err != nil) {
				t.Errorf("kept: %v, %v", keep, err)
			}
			if got := strings.Join(test.b.done, " "); got != test.done {
				t.Errorf("done: %q, want %q", got, test.done)
			}
		})
	}
	if _, ok := Drains(&draining{}, "userspace"); ok {
		t.Error("X22 IPVS beside userspace takes its packets")
	}
}
