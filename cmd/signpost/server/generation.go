package server

import (
	"context"
	"errors"
	"sync"

	"signpost/cmd/signpost/admin"
	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/dataplane"
)

// generation is everything that follows from one configuration. Parts that two
// configurations have in common are shared.
type generation struct {
	config       *corefile.Config
	source       *source // never nil
	plane        *plane  // nil: no dataplane
	zones        *zones
	adminAddress string // empty: none
}

// build makes a generation and validates all of it. Nothing of it runs, but
// what it shares with the generation before.
func (s *Server) build(ctx context.Context, config *corefile.Config, before *generation) (*generation, error) {
	g := &generation{config: config, adminAddress: config.Admin}
	if g.adminAddress == "" {
		g.adminAddress = admin.DefaultAddress()
	}
	var sourceErr, planeErr, zonesErr error
	if g.source, sourceErr = newSource(config, s.log, s.metrics.kube, before); sourceErr != nil {
		g.source = emptySource()
	}
	g.plane, planeErr = s.newPlane(ctx, config, g.source.store, before)
	g.zones, zonesErr = newZones(config, g.visible(), s.log)
	if err := joinLines(sourceErr, planeErr, zonesErr); err != nil {
		return nil, errors.Join(err, g.discard(before))
	}
	return g, nil
}

// joinLines joins errors; those of a Corefile become one list.
func joinLines(errs ...error) error {
	var lines corefile.Errors
	var rest []error
	for _, err := range errs {
		var some corefile.Errors
		if errors.As(err, &some) {
			lines = append(lines, some...)
		} else if err != nil {
			rest = append(rest, err)
		}
	}
	if len(lines) > 0 {
		rest = append(rest, lines)
	}
	return errors.Join(rest...)
}

// start runs what the generation before doesn't run already.
func (g *generation) start(s *Server, before *generation) {
	if before == nil || g.source != before.source {
		g.source.start(s.failed)
	}
	if g.plane != nil && (before == nil || g.plane != before.plane) {
		g.plane.start()
	}
	g.zones.start()
}

// stop ends the generation that was in force last. What is in the kernel stays.
func (g *generation) stop() error {
	g.zones.stop()
	var err error
	if g.plane != nil {
		g.plane.stop()
		err = dataplane.Close(g.plane.backend)
	}
	g.source.stop()
	return err
}

// mode names the dataplane's; empty: there is none.
func (g *generation) mode() string {
	if g.plane == nil {
		return ""
	}
	return g.plane.backend.Name()
}

// discard gives up a generation that never ran.
func (g *generation) discard(before *generation) error {
	if g.plane == nil || (before != nil && g.plane == before.plane) {
		return nil
	}
	return g.plane.discard()
}

// waiting lists what is not ready.
func (g *generation) waiting() []string {
	var list []string
	for _, z := range g.zones.clusters {
		if !z.Synced() {
			list = append(list, g.source.waiting())
			break
		}
	}
	if g.plane != nil && g.plane.gate == nil && g.plane.controller.Status().Applied == nil {
		list = append(list, "vip: the first rules are not in yet")
	}
	return list
}

// part is something that runs until it is stopped.
type part struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// run starts the functions; each returns when its context ends.
func (p *part) run(functions ...func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	for _, f := range functions {
		p.running.Go(func() { f(ctx) })
	}
}

// stop ends them and waits; what never ran has nothing to end.
func (p *part) stop() {
	if p.cancel != nil {
		p.cancel()
		p.running.Wait()
	}
}
