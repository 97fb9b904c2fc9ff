package viptest

import (
	"context"

	"signpost/vip"
)

var _ vip.Differ = (*Fake)(nil)

// Diff implements [vip.Differ].
func (f *Fake) Diff(_ context.Context, want *vip.State) ([]vip.Difference, error) {
	own, node, err := f.kernel.list()
	if err != nil {
		return nil, err
	}
	list := vip.DiffFrontends(own, want, func(there rule, v *vip.VirtualServer) []string {
		if there.equal(compile(v)) {
			return nil
		}
		return []string{"its rule is another one"}
	})
	if !want.Node().Equal(node) {
		list = append([]vip.Difference{{Kind: vip.Other, Text: "the node is another one"}}, list...)
	}
	return list, nil
}
