package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/dataplane"
	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/conntrack"
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
	log        *slog.Logger
}

// newPlane chooses a backend and wires the dataplane; nil without a
// configuration. The backend of the generation before is used again if it is
// of the same mode.
func newPlane(ctx context.Context, whole *corefile.Config, desired *discovery.Store, log *slog.Logger, m *metrics, before *generation) (*plane, error) {
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
	log = log.With("part", "vip")
	backend, err := chooseBackend(ctx, config, log, old)
	if err != nil {
		return nil, err
	}
	p := &plane{config: config, desired: desired, backend: backend, log: log}
	if err := p.wire(whole, m); err != nil {
		return nil, errors.Join(err, p.release(before))
	}
	return p, nil
}

// sameVIP compares what two directives mean, wherever they stand.
func sameVIP(a, b *corefile.VIP) bool {
	x, y := *a, *b
	x.Place, y.Place = corefile.Place{}, corefile.Place{}
	return reflect.DeepEqual(x, y)
}

func chooseBackend(ctx context.Context, config *corefile.VIP, log *slog.Logger, old *plane) (vip.Backend, error) {
	backend, rejected, err := dataplane.Choose(ctx, config.Mode, dataplane.Options{Scheduler: config.Scheduler}, log)
	if err != nil {
		return nil, config.Errorf("vip", "%v", err)
	}
	for _, r := range rejected {
		log.Info("mode can't run here", "mode", r.Mode, "reason", r.Reason)
	}
	log.Info("dataplane chosen", "mode", backend.Name(), "asked", config.Mode)
	if old != nil && old.backend.Name() == backend.Name() {
		return old.backend, dataplane.Close(backend)
	}
	return backend, nil
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
		Desired: p.desired, Nodes: p.nodes, Backend: p.backend, Planner: planner, Log: p.log, Observer: m,
		MinInterval: p.config.MinSyncPeriod, SyncPeriod: p.config.SyncPeriod,
	}
	if p.config.Gate {
		settings.Before = func(ctx context.Context, revision uint64) { p.gate.Passed(ctx, revision) }
	}
	p.controller = vip.NewController(settings)
	if p.config.Gate {
		p.gate = vip.NewGate(vip.GateConfig{Desired: p.desired, Status: p.controller, Planner: planner, Log: p.log})
	}
	p.conntrack = newReconciler(p)
	return nil
}

func (p *plane) start() {
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

// release gives the backend up unless the other generation uses it. When there
// is another generation, its mode differs: what this one made has to go.
func (p *plane) release(other *generation) error {
	if other != nil && other.plane != nil && other.plane.backend == p.backend {
		return nil
	}
	var err error
	if other != nil && p.cancel != nil {
		if err = p.backend.Cleanup(context.Background()); err != nil {
			err = fmt.Errorf("cleaning up mode %s: %w", p.backend.Name(), err)
		}
	}
	return errors.Join(err, dataplane.Close(p.backend))
}

// visible is the store that DNS answers from.
func (g *generation) visible() *discovery.Store {
	if g.plane != nil && g.plane.gate != nil {
		return g.plane.gate.Visible()
	}
	return g.source.store
}

// health reports whether the dataplane keeps up, and since when it is known (L-04).
func (p *plane) health(now time.Time) (healthy bool, last time.Time) {
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
