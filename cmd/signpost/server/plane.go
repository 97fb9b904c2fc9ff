package server

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/dataplane"
	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/conntrack"
	"signpost/vip/healthcheck"
	"signpost/vip/nodeaddrs"
)

// plane is the dataplane: node, controller, backend and gate.
type plane struct {
	part
	config     *corefile.VIP
	desired    *discovery.Store
	settings   nodeaddrs.Config
	nodes      *nodeaddrs.Source
	backend    vip.Backend
	controller *vip.Controller
	gate       *vip.Gate // nil: switched off
	conntrack  *conntrack.Reconciler
	health     *healthcheck.Server
	fleet      *fleet
	exclusive  bool // no other signpost makes rules here
	inherited  bool // the backend is not new
	log        *slog.Logger
}

// newPlane chooses a backend and wires the dataplane; nil without a
// configuration. The backend of the generation before is used again if it is
// of the same mode.
func (s *Server) newPlane(ctx context.Context, whole *corefile.Config, desired *discovery.Store, before *generation) (*plane, error) {
	config := whole.VIP
	if config == nil {
		return nil, nil //nolint:nilnil // no dataplane is no error
	}
	var old *plane
	if before != nil {
		old = before.plane
	}
	if old != nil && old.desired == desired && sameVIP(old.config, config) {
		return old, nil
	}
	p := &plane{config: config, desired: desired, fleet: &s.fleet, log: s.log.With("part", "vip")}
	if err := p.chooseBackend(ctx, old); err != nil {
		return nil, err
	}
	err := s.premises.enter(ctx, config, p.backend.Name())
	p.exclusive = s.premises.exclusive
	if err == nil {
		err = p.wire(whole, s.metrics)
	}
	if err != nil {
		return nil, errors.Join(err, p.discard())
	}
	return p, nil
}

// sameVIP compares what two directives mean, wherever they stand.
func sameVIP(a, b *corefile.VIP) bool {
	x, y := *a, *b
	x.Place, y.Place = corefile.Place{}, corefile.Place{}
	return reflect.DeepEqual(x, y)
}

// chooseBackend takes the backend that the mode asks for: one that is there
// already, if there is, because it knows what it has made.
func (p *plane) chooseBackend(ctx context.Context, old *plane) error {
	config := p.config
	backend, rejected, err := dataplane.Choose(ctx, config.Mode, p.options(), p.log)
	if err != nil {
		return config.Errorf("vip", "%v", err)
	}
	for _, r := range rejected {
		p.log.Info("mode can't run here", "mode", r.Mode, "reason", r.Reason)
	}
	p.log.Info("dataplane chosen", "mode", backend.Name(), "asked", config.Mode)
	p.backend = backend
	present := p.fleet.find(backend.Name())
	if old != nil && old.backend.Name() == backend.Name() {
		present = old.backend
	}
	if present == nil {
		return nil
	}
	p.backend, p.inherited = present, true
	return dataplane.Close(backend)
}

func (p *plane) options() dataplane.Options {
	return dataplane.Options{Scheduler: p.config.Scheduler, IPVS: p.config.IPVS}
}

// wire connects the parts. Controller and gate each know the other one.
func (p *plane) wire(whole *corefile.Config, m *metrics) error {
	var err error
	if p.settings, err = nodeConfig(whole, p.backend.Name()); err != nil {
		return err
	}
	p.settings.Store, p.settings.Log = p.desired, p.log
	if p.nodes, err = nodeaddrs.New(p.settings); err != nil {
		return err
	}
	planner := vip.Planner{Options: p.config.Policy}
	settings := vip.Config{
		Desired: p.desired, Nodes: p.nodes, Backend: p.backend, Planner: planner, Log: p.log, Observer: m.forMode(p.backend.Name()),
		MinInterval: p.config.MinSyncPeriod, SyncPeriod: p.config.SyncPeriod,
	}
	if p.config.Gate {
		settings.Before = func(ctx context.Context, revision uint64) { p.gate.Passed(ctx, revision) }
	}
	p.controller = vip.NewController(settings)
	if p.config.Gate {
		p.gate = vip.NewGate(vip.GateConfig{Desired: p.desired, Status: p.controller, Planner: planner, Log: p.log})
	}
	p.conntrack, p.health = p.newReconciler(m), p.newHealthChecks()
	return nil
}

func (p *plane) start() {
	if p.inherited {
		dataplane.Configure(p.backend, p.options(), p.log)
	}
	loops := []func(context.Context){
		func(ctx context.Context) { _ = p.nodes.Run(ctx) }, // none of them has an error but the context's
		func(ctx context.Context) { p.prepare(); _ = p.controller.Run(ctx) },
	}
	loops = append(loops, p.services()...)
	if p.gate != nil {
		loops = append(loops, func(ctx context.Context) { _ = p.gate.Run(ctx) })
	}
	p.run(loops...)
}

// discard gives up a plane that never ran.
func (p *plane) discard() error {
	if p.inherited {
		return nil
	}
	return dataplane.Close(p.backend)
}

// visible is the store that DNS answers from.
func (g *generation) visible() *discovery.Store {
	if g.plane != nil && g.plane.gate != nil {
		return g.plane.gate.Visible()
	}
	return g.source.store
}

// keepsUp reports whether the dataplane keeps up, and since when it is known (L-04).
func (p *plane) keepsUp(now time.Time) (healthy bool, last time.Time) {
	h := p.controller.Health()
	if h.Healthy {
		return true, now
	}
	return false, h.Updated
}

// nodeEligible reports whether load balancers may send new traffic here.
func (p *plane) nodeEligible() bool {
	node := p.desired.Current().Nodes[p.settings.Name]
	return node == nil || !node.Deleting
}
