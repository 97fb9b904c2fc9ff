package server

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"

	"signpost/cmd/signpost/corefile"
	"signpost/discovery"
	"signpost/discovery/kube"
	"signpost/discovery/manifest"
)

// source is where services come from, with the store that it keeps.
type source struct {
	part
	config *manifest.Config // nil: it is no folder
	api    *kube.Config     // nil: it is no API server
	store  *discovery.Store
	inner  discovery.Source // nil: there is no source
	events *kube.Events     // nil: nobody to write them to
}

func emptySource() *source { return &source{store: discovery.NewStore()} }

// newSource opens the source that the configuration names. This is the one
// place that knows which kinds of source there are.
func newSource(config *corefile.Config, log *slog.Logger, m *kube.Metrics, before *generation) (*source, error) {
	if config.Manifests == nil {
		return newAPISource(config, log, m, before)
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

// newAPISource follows an API server, if anything in the configuration needs a
// source. A server that is not there yet is no error: names of the cluster are
// answered once it is (dns-requirements L2).
func newAPISource(config *corefile.Config, log *slog.Logger, m *kube.Metrics, before *generation) (*source, error) {
	found, err := findAPIServer(config)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return emptySource(), nil
	case before != nil && reflect.DeepEqual(before.source.api, &found.config):
		return before.source, nil
	}
	settings := found.config
	settings.Log, settings.Metrics = log.With("part", "kubernetes"), m
	inner, err := kube.New(settings)
	if err != nil {
		return nil, found.errorf("%v", err)
	}
	s := &source{api: &found.config, store: discovery.NewStore(), inner: inner}
	if config.VIP != nil {
		node, err := nodeName(config.VIP)
		if err != nil {
			return nil, err
		}
		s.events = inner.Events(node)
	}
	return s, nil
}

// waiting says, for people, why names of the cluster are not answered yet.
func (s *source) waiting() string {
	if api, ok := s.inner.(*kube.Source); ok {
		if missing := api.Missing(); len(missing) > 0 {
			return "kubernetes: the API server at " + api.Host() + " has not delivered " + strings.Join(missing, ", ") + " yet"
		}
	}
	return "kubernetes: the source has not delivered everything yet, or its rules are not in"
}

// start runs the source; if it gives up, failed is told.
func (s *source) start(failed chan<- error) {
	if s.inner == nil {
		return
	}
	loops := []func(context.Context){func(ctx context.Context) { s.follow(ctx, failed) }}
	if s.events != nil {
		loops = append(loops, s.events.Run)
	}
	s.run(loops...)
}

func (s *source) follow(ctx context.Context, failed chan<- error) {
	err := s.inner.Run(ctx, s.store)
	if err == nil || ctx.Err() != nil {
		return
	}
	select {
	case failed <- fmt.Errorf("following the source: %w", err):
	default: // another part has failed already
	}
}
