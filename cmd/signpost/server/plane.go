package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/dataplane"
	"signpost/discovery"
	"signpost/vip"
)

// plane is the dataplane: node, controller, backend and gate.
type plane struct {
	part
	config     *corefile.VIP
	desired    *discovery.Store
	settings   dataplane.NodeConfig
	nodes      *vip.Cell[vip.Node]
	backend    vip.Backend
	controller *vip.Controller
	gate       *vip.Gate // nil: switched off
	log        *slog.Logger
}

// newPlane chooses a backend and wires the dataplane; nil without a
// configuration. The backend of the generation before is used again if it is
// of the same mode.
func newPlane(ctx context.Context, config *corefile.VIP, desired *discovery.Store, log *slog.Logger, m *metrics, before *generation) (*plane, error) {
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
	settings, err := nodeConfig(config, backend.Name())
	if err != nil {
		return nil, err
	}
	p := &plane{
		config: config, desired: desired, settings: settings, nodes: vip.NewCell[vip.Node](nil), backend: backend, log: log,
	}
	p.wire(m)
	return p, nil
}

// sameVIP compares what two directives mean, wherever they stand.
func sameVIP(a, b *corefile.VIP) bool {
	x, y := *a, *b
	x.Place, y.Place = corefile.Place{}, corefile.Place{}
	return reflect.DeepEqual(x, y)
}

func chooseBackend(ctx context.Context, config *corefile.VIP, log *slog.Logger, old *plane) (vip.Backend, error) {
	backend, rejected, err := dataplane.Choose(ctx, config.Mode, log)
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

func nodeConfig(config *corefile.VIP, mode string) (dataplane.NodeConfig, error) {
	name := config.NodeName
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return dataplane.NodeConfig{}, fmt.Errorf("finding the host name (set node_name): %w", err)
		}
		name = strings.ToLower(host)
	}
	return dataplane.NodeConfig{
		Name: name, Mode: mode, ClusterCIDRs: config.ClusterCIDRs, InterfacePrefix: config.InterfacePrefix,
		MasqueradeAll: config.MasqueradeAll, Primary: config.NodePortPrimary, NodePortAddresses: config.NodePortAddresses,
	}, nil
}

// wire connects controller and gate: each knows the other one.
func (p *plane) wire(m *metrics) {
	settings := vip.Config{
		Desired: p.desired, Nodes: p.nodes, Backend: p.backend, Log: p.log, Observer: m,
		MinInterval: p.config.MinSyncPeriod, SyncPeriod: p.config.SyncPeriod,
	}
	if p.config.Gate {
		settings.Before = func(ctx context.Context, revision uint64) { p.gate.Passed(ctx, revision) }
	}
	p.controller = vip.NewController(settings)
	if p.config.Gate {
		p.gate = vip.NewGate(vip.GateConfig{Desired: p.desired, Status: p.controller, Log: p.log})
	}
}

func (p *plane) start() {
	loops := []func(context.Context){
		p.followNode,
		func(ctx context.Context) { _ = p.controller.Run(ctx) }, // neither has an error but the context's
	}
	if p.gate != nil {
		loops = append(loops, func(ctx context.Context) { _ = p.gate.Run(ctx) })
	}
	p.run(loops...)
}

// nodePeriod is how often the machine's own addresses are looked at.
const nodePeriod = 5 * time.Second

// followNode keeps the description of this machine current.
func (p *plane) followNode(ctx context.Context) {
	snapshot, err := p.desired.Wait(ctx, func(s *discovery.Snapshot) bool { return s.Synced })
	if err != nil {
		return // the context has ended
	}
	if len(snapshot.Nodes) > 0 && snapshot.Nodes[p.settings.Name] == nil {
		p.log.Warn("no Node object has this machine's name: nothing counts as local", "node_name", p.settings.Name)
	}
	ticker := time.NewTicker(nodePeriod)
	defer ticker.Stop()
	for {
		snapshot = p.desired.Current()
		p.updateNode(snapshot)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-p.desired.Changed(snapshot.Revision):
		}
	}
}

func (p *plane) updateNode(snapshot *discovery.Snapshot) {
	local, err := dataplane.LocalAddrs()
	if err != nil {
		p.log.Error("looking at this machine failed", "err", err)
		return
	}
	if node := p.settings.Node(snapshot, local); !node.Equal(p.nodes.Current()) {
		p.nodes.Set(node)
	}
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
