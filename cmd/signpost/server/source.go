package server

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"

	"signpost/cmd/signpost/corefile"
	"signpost/discovery"
	"signpost/discovery/manifest"
)

// source is where services come from, with the store that it keeps.
type source struct {
	part
	config *manifest.Config // nil: there is no source
	store  *discovery.Store
	inner  discovery.Source
}

func emptySource() *source { return &source{store: discovery.NewStore()} }

// newSource opens the source that the configuration names. This is the one
// place that knows which kinds of source there are.
func newSource(config *corefile.Config, log *slog.Logger, before *generation) (*source, error) {
	if config.Manifests == nil {
		if err := needsAPIServer(config); err != nil {
			return nil, err
		}
		return emptySource(), nil
	}
	if before != nil && reflect.DeepEqual(before.source.config, config.Manifests) {
		return before.source, nil
	}
	settings := *config.Manifests
	settings.Log = log.With("part", "manifests")
	inner, err := manifest.New(settings)
	if err != nil {
		return nil, config.ManifestsAt.Errorf("manifests", "%v", err)
	}
	return &source{config: config.Manifests, store: discovery.NewStore(), inner: inner}, nil
}

// needsAPIServer reports the directives that need a source when no folder of
// manifests is named: then it would be an API server.
func needsAPIServer(config *corefile.Config) error {
	const problem = `needs a source, and this build reads a folder of manifests only, no API server: add "manifests FOLDER"`
	var errs corefile.Errors
	for _, s := range config.Servers {
		if k := s.Cluster; k != nil {
			errs = append(errs, k.Errorf("kubernetes", problem)...)
		}
	}
	if v := config.VIP; v != nil {
		errs = append(errs, v.Errorf("vip", problem)...)
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// start runs the source; if it gives up, failed is told.
func (s *source) start(failed chan<- error) {
	if s.inner == nil {
		return
	}
	s.run(func(ctx context.Context) {
		err := s.inner.Run(ctx, s.store)
		if err == nil || ctx.Err() != nil {
			return
		}
		select {
		case failed <- fmt.Errorf("following the source: %w", err):
		default: // another part has failed already
		}
	})
}
