package server

import (
	"context"
	"fmt"

	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/dataplane"
	"signpost/vip"
)

// differ compares a plan with what the backend has made of it; nil: there is
// no plan yet.
func (p *plane) differ(plan *vip.State) func(context.Context) ([]vip.Difference, error) {
	if plan == nil {
		return nil
	}
	return func(ctx context.Context) ([]vip.Difference, error) { return diff(ctx, p.backend, plan) }
}

func diff(ctx context.Context, backend vip.Backend, plan *vip.State) ([]vip.Difference, error) {
	d, ok := backend.(vip.Differ)
	if !ok {
		return nil, fmt.Errorf("comparing plan and kernel: mode %s can't tell", backend.Name())
	}
	return d.Diff(ctx, plan)
}

// Diff compares what a configuration asks for with what is in the kernel,
// without a running server and without touching anything. An empty mode is the
// configuration's. It returns the mode that it compared with.
func Diff(ctx context.Context, config *corefile.Config, mode string, o Options) (string, []vip.Difference, error) {
	mode, err := resolveMode(ctx, planMode(config, mode), o)
	if err != nil {
		return "", nil, err
	}
	plan, err := Plan(ctx, config, mode, o)
	if err != nil {
		return mode, nil, err
	}
	backend, _, err := dataplane.Choose(ctx, mode, dataplane.Options{}, o.Log)
	if err != nil {
		return mode, nil, err
	}
	defer func() { _ = dataplane.Close(backend) }() // it has made nothing
	list, err := diff(ctx, backend, plan)
	return mode, list, err
}

// planMode is the mode that a command without a server is about.
func planMode(config *corefile.Config, asked string) string {
	switch {
	case asked != "":
		return asked
	case config.VIP != nil:
		return config.VIP.Mode
	default:
		return dataplane.Auto
	}
}
