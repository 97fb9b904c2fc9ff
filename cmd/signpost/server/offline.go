package server

import (
	"context"

	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/dataplane"
	"signpost/discovery"
	"signpost/discovery/manifest"
	"signpost/vip"
	"signpost/vip/nodeaddrs"
)

// Check reports every problem of a configuration, beyond those that reading
// the Corefile has found, and of its manifests. Nothing is opened on the
// network and nothing is changed.
func Check(config *corefile.Config, o Options) ([]manifest.Problem, error) {
	_, zonesErr := newZones(config, discovery.NewStore(), o.Log)
	var modeErr error
	if v := config.VIP; v != nil {
		if err := dataplane.Known(v.Mode); err != nil {
			modeErr = v.Errorf("vip", "%v", err)
		}
	}
	if config.Manifests == nil {
		return nil, joinLines(checkAPIServer(config), modeErr, zonesErr)
	}
	loaded, err := manifest.Load(*config.Manifests)
	if err != nil {
		return nil, joinLines(config.ManifestsAt.Errorf("manifests", "%v", err), modeErr, zonesErr)
	}
	return loaded.Problems, joinLines(modeErr, zonesErr)
}

// Plan returns the virtual servers that a configuration asks for, without a
// running server and without touching anything. An empty mode is the
// configuration's.
func Plan(ctx context.Context, config *corefile.Config, mode string, o Options) (*vip.State, error) {
	settings := *config
	if settings.VIP == nil {
		settings.VIP = &corefile.VIP{Mode: dataplane.Auto}
	}
	mode, err := resolveMode(ctx, planMode(config, mode), o)
	if err != nil {
		return nil, err
	}
	snapshot, err := snapshotOf(ctx, &settings, o)
	if err != nil {
		return nil, err
	}
	local, err := nodeConfig(&settings, mode)
	if err != nil {
		return nil, err
	}
	node, err := nodeaddrs.Once(local, snapshot)
	if err != nil {
		return nil, err
	}
	return vip.Planner{Options: settings.VIP.Policy}.Plan(snapshot, node), nil
}

// snapshotOf returns what the source of a configuration holds now.
func snapshotOf(ctx context.Context, config *corefile.Config, o Options) (*discovery.Snapshot, error) {
	if config.Manifests == nil {
		return askAPIServer(ctx, config, o)
	}
	loaded, err := manifest.Load(*config.Manifests)
	if err != nil {
		return nil, config.ManifestsAt.Errorf("manifests", "%v", err)
	}
	return loaded.Snapshot, nil
}

// resolveMode turns "auto" into the mode that this machine would run.
func resolveMode(ctx context.Context, mode string, o Options) (string, error) {
	if mode != dataplane.Auto {
		return mode, dataplane.Known(mode)
	}
	backend, _, err := dataplane.Choose(ctx, mode, dataplane.Options{}, o.Log)
	if err != nil {
		return "", err
	}
	return backend.Name(), dataplane.Close(backend)
}
