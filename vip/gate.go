package vip

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"signpost/discovery"
)

// GateConfig is what a [Gate] needs. Desired and Status are required.
type GateConfig struct {
	Desired *discovery.Store
	// Status is the controller that follows Desired.
	Status StatusSource
	// Planner tells the services that have nothing to wait for.
	Planner Planner
	Log     *slog.Logger

	// StartLimit is how long the gate stays shut at the start if the dataplane
	// does not come up; 30 s. Then everything that is desired becomes visible,
	// until the dataplane has come up: names must not be lost for ever because
	// of it, and the rules of the process before are probably still there.
	StartLimit time.Duration
}

// StatusSource is a [Controller], to those who wait for it.
type StatusSource interface {
	Status() *Status
	Changed(old *Status) <-chan struct{}
}

var _ StatusSource = (*Controller)(nil)

// Gate holds services back from DNS until their virtual addresses work on this
// node.
//
//   - A new service becomes visible when each of its cluster-IP frontends is
//     applied; at once if it has none.
//   - A deleted one leaves at once. With [Gate.Passed] as the controller's
//     Before, its rules go after its name.
//   - Changes of a visible service pass at once; a cluster address or a port
//     that it gets joins when it works.
//   - While the dataplane fails as a whole, what is visible stays visible and
//     follows its changes; new services wait.
//   - Pods, nodes and namespaces pass at once. The visible store is synced when
//     the desired one is and the first round has brought, at least in part, the
//     rules in; at the latest after StartLimit.
//
// Services that pass keep their pointer.
type Gate struct {
	config  GateConfig
	log     *slog.Logger
	visible *discovery.Store
	passed  *Cell[discovery.Snapshot] // the desired snapshot that visible reflects

	// All below belongs to Run.
	desired *discovery.Snapshot
	status  *Status
	waiting map[discovery.Key]struct{} // desired, and not visible as it should be
	begun   bool                       // the first round has ended
	open    bool                       // nothing is held back: the dataplane did not come up
}

// NewGate returns a gate whose visible store is empty until Run.
func NewGate(config GateConfig) *Gate {
	config.StartLimit = cmp.Or(config.StartLimit, 30*time.Second)
	log := config.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Gate{
		config: config, log: log, visible: discovery.NewStore(),
		passed:  NewCell(&discovery.Snapshot{}),
		desired: &discovery.Snapshot{}, status: &Status{}, waiting: map[discovery.Key]struct{}{},
	}
}

// Visible is the store that DNS answers from.
func (g *Gate) Visible() *discovery.Store { return g.visible }

// Passed waits until the visible store reflects the desired revision, that is
// until what is deleted in it has left DNS, or until the context ends. It is
// the [Config].Before of the controller.
func (g *Gate) Passed(ctx context.Context, revision uint64) {
	for {
		at := g.passed.Current()
		if at.Revision >= revision {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-g.passed.Changed(at):
		}
	}
}

// Run works until the context ends. It may be called once.
func (g *Gate) Run(ctx context.Context) error {
	var limit <-chan time.Time // runs from the moment that the source is synced
	for {
		desired, status := g.config.Desired.Current(), g.config.Status.Status()
		g.update(desired, status)
		if desired.Synced && !g.begun && limit == nil {
			limit = time.After(g.config.StartLimit)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-g.config.Desired.Changed(desired.Revision):
		case <-g.config.Status.Changed(status):
		case <-limit:
			g.giveUp()
		}
	}
}

// giveUp opens the gate at the end of the start limit.
func (g *Gate) giveUp() {
	if g.begun {
		return
	}
	g.open = true
	g.log.Warn("dataplane did not come up in time; names are answered without it", "limit", g.config.StartLimit)
}

// update moves the visible store to what is desired and applied now.
func (g *Gate) update(desired *discovery.Snapshot, status *Status) {
	g.begun = g.begun || status.Applied != nil
	g.open = g.open && !g.begun
	before := g.desired
	g.desired, g.status = desired, status
	g.visible.Update(func(tx *discovery.Tx) {
		g.passRest(tx, before, desired)
		// The keys that changed come first: those that wait include them after.
		discovery.Diff(before.Services, desired.Services, func(k discovery.Key, _, now *discovery.Service) {
			if now == nil {
				delete(g.waiting, k)
				tx.DeleteService(k)
				return
			}
			g.waiting[k] = struct{}{}
		})
		for k := range g.waiting {
			g.pass(tx, k)
		}
		if desired.Synced && (g.begun || g.open) {
			tx.MarkSynced()
		}
	})
	g.passed.Set(desired)
}

// pass shows as much of a desired service as works.
func (g *Gate) pass(tx *discovery.Tx, k discovery.Key) {
	s, _ := g.desired.Services.Get(k)
	old, _ := g.visible.Current().Services.Get(k)
	shown := g.admitted(s, old)
	if shown == s {
		delete(g.waiting, k)
	}
	if shown == nil {
		tx.DeleteService(k)
		return
	}
	tx.PutService(shown)
}

// passRest takes over what has nothing to do with virtual addresses.
func (g *Gate) passRest(tx *discovery.Tx, before, after *discovery.Snapshot) {
	discovery.Diff(before.Pods, after.Pods, func(k discovery.Key, _, now *discovery.Pod) {
		if now == nil {
			tx.DeletePod(k)
			return
		}
		tx.PutPod(now)
	})
	for name, n := range after.Nodes {
		if before.Nodes[name] != n {
			tx.PutNode(n)
		}
	}
	for name := range before.Nodes {
		if after.Nodes[name] == nil {
			tx.DeleteNode(name)
		}
	}
	for name := range after.Namespaces { // equal ones are no change
		tx.PutNamespaceLabels(name, after.NamespaceLabels[name])
	}
	for name := range before.Namespaces {
		if !after.Namespaces[name] {
			tx.DeleteNamespace(name)
		}
	}
	tx.PutServiceCIDRs(after.ServiceCIDRs)
}
