package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"signpost/discovery"
	"signpost/integration/lab"
	"signpost/vip"
	"signpost/vip/viptest"
)

// Host is where a backend under test works: a node of the lab. The suite calls
// the backend's methods with the calling thread in the node's network
// namespace, so that sockets opened there belong to the node. A backend that
// opens some later, in goroutines of its own, opens them through Lab.
type Host struct {
	Lab  *lab.Lab
	Name string
}

// Limits is what a backend can't do by its nature. The zero value can
// everything.
type Limits struct {
	// LosesSource: endpoints always see the node's address.
	LosesSource bool
	// NoSCTP: frontends of SCTP are reported as failed.
	NoSCTP bool
	// SilentUDP: where UDP is served for some sources, those that are to be
	// refused hear nothing; and a UDP client is refused by silence while the
	// frontend's socket is open.
	SilentUDP bool
	// Captures: packets to other ports of an external or load-balancer address
	// don't pass; they are refused.
	Captures bool
	// AffinityLingers: a client's affinity ends later than its timeout.
	AffinityLingers bool
	// HostPorts: what others do with a port of all addresses of the node, they do
	// with that port of a cluster address.
	HostPorts bool
	// NoInterfaces: a pod is told from others by its address only.
	NoInterfaces bool
	// NewestOnly: of connections between one port of a client and one endpoint by
	// several ways, the newest works.
	NewestOnly bool
	// TooLarge: the node's own datagrams that don't fit into one packet may be
	// lost; then the sender is told so.
	TooLarge bool
	// InProcess: the dataplane is this process. When it ends, nobody answers
	// any more, and who sticks to which endpoint is forgotten.
	InProcess bool
}

// Suite is what [Run] needs to know of a backend.
type Suite struct {
	// New makes a backend for a host. If it has a Close, that is called at the
	// end; what is in the kernel has to stay.
	New    func(host Host) vip.Backend
	Limits Limits
	// Dump returns what the kernel holds of this backend, in a form that is the
	// same for the same contents, whatever their history; called on the host.
	// Nil: the kernel is not looked at.
	Dump func() (string, error)
	// Writes returns a number that grows with every write to the kernel; called
	// on the host. Nil: unknown.
	Writes func() (uint64, error)
	// Breakages are what others may do to this dataplane.
	Breakages []Breakage
	// SyncPeriod is how often a program looks at its dataplane; default 30 s.
	// Where Breakages are to be healed without a [vip.Watcher], it must be short.
	SyncPeriod time.Duration
	// Patience is how long an answer may take; default five seconds.
	Patience time.Duration
	// Steps is the length of the random sequences; default 12.
	Steps int
}

const (
	defaultPatience = 5 * time.Second
	defaultSteps    = 12
)

// Run runs the suite in a lab of its own. It needs root; without it, the test
// is skipped, or fails if REQUIRE_KERNEL is set.
func Run(t *testing.T, s Suite) {
	t.Helper()
	viptest.NeedRoot(t)
	if s.Patience == 0 {
		s.Patience = defaultPatience
	}
	if s.Steps == 0 {
		s.Steps = defaultSteps
	}
	r := &runner{suite: s, site: newSite(t)}
	for _, part := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"features", r.features},
		{"spread", r.spread},
		{"affinity", r.affinity},
		{"window", r.window},
		{"random", r.random},
		{"life", r.life},
		{"one port", r.onePort},
		{"closed port", r.closedPort},
		{"large", r.large},
		{"strangers", r.strangers},
		{"host ports", r.hostPorts},
		{"live", r.live},
		{"heal", r.heal},
		{"no orphan", r.leavesNothing},
	} {
		t.Run(part.name, part.test)
	}
}

// runner runs a suite in a lab.
type runner struct {
	suite Suite
	site  *site
}

// driver is a backend whose methods are called on the host under test.
type driver struct {
	site    *site
	node    string
	closed  bool
	backend vip.Backend
	limits  Limits
}

// start makes a backend for a node, which is closed at the end of the test.
func (r *runner) start(t *testing.T, node string) *driver {
	t.Helper()
	d := &driver{site: r.site, node: node, limits: r.suite.Limits, backend: r.suite.New(Host{r.site.lab, node})}
	t.Cleanup(func() { d.close(t) })
	if err := d.on(func() error { return d.backend.Probe(t.Context()) }); err != nil {
		t.Fatalf("this kernel can't run %s: %v", d.backend.Name(), err)
	}
	return d
}

// fresh starts on a node that holds nothing of the backend.
func (r *runner) fresh(t *testing.T) *driver {
	t.Helper()
	d := r.start(t, node)
	d.cleanup(t)
	t.Cleanup(func() { d.cleanup(t) })
	return d
}

func (d *driver) on(f func() error) error { return d.site.lab.RunIn(d.node, f) }

// apply applies a state and returns what the node then holds. Nothing may fail
// but what the backend's limits name.
func (d *driver) apply(t *testing.T, have, want *vip.State) *vip.State {
	t.Helper()
	err := d.on(func() error { return d.backend.Apply(t.Context(), have, want) })
	if err == nil {
		return want
	}
	var partial *vip.PartialError
	if !errors.As(err, &partial) {
		t.Fatalf("applying: %v", err)
	}
	for f, reason := range partial.Failed {
		if f.Protocol != discovery.SCTP || !d.limits.NoSCTP {
			t.Fatalf("applying %s: %v", f, reason)
		}
	}
	return want.Without(partial.Failed)
}

// cleanup works also at the end of a test, when its context has ended.
func (d *driver) cleanup(t *testing.T) {
	t.Helper()
	if err := d.on(func() error { return d.backend.Cleanup(context.WithoutCancel(t.Context())) }); err != nil {
		t.Errorf("cleaning up: %v", err)
	}
}

func (d *driver) close(t *testing.T) {
	t.Helper()
	closer, ok := d.backend.(interface{ Close() error })
	if !ok || d.closed {
		return
	}
	d.closed = true
	if err := d.on(closer.Close); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// dump returns what a node's kernel holds, or nothing where the suite can't tell.
func (r *runner) dump(t *testing.T, node string) string {
	t.Helper()
	if r.suite.Dump == nil {
		return ""
	}
	var text string
	err := r.site.lab.RunIn(node, func() (err error) {
		text, err = r.suite.Dump()
		return err
	})
	if err != nil {
		t.Fatalf("looking at the kernel: %v", err)
	}
	return text
}

// writes returns how often the kernel was written to, or 0 where the suite
// can't tell.
func (r *runner) writes(t *testing.T) uint64 {
	t.Helper()
	if r.suite.Writes == nil {
		return 0
	}
	var n uint64
	err := r.site.lab.RunIn(node, func() (err error) {
		n, err = r.suite.Writes()
		return err
	})
	if err != nil {
		t.Fatalf("counting writes: %v", err)
	}
	return n
}

// plan reads a world and plans it.
func plan(text string) (*vip.State, error) {
	world, err := viptest.ParseWorld(text)
	if err != nil {
		return nil, fmt.Errorf("planning: %w", err)
	}
	return vip.Planner{}.Plan(world.Snapshot, world.Node), nil
}
