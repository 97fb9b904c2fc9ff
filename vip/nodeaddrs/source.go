package nodeaddrs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"signpost/discovery"
	"signpost/vip"
)

// Config says which node this is and what its dataplane is like. Store is
// required.
type Config struct {
	// Name is the node's name; empty: the host name in lower case, as kubelet does.
	Name string
	// Store has the Node objects and the service ranges, if there are any.
	Store *discovery.Store
	// Mode is the dataplane's, as the Corefile spells it.
	Mode string
	// NodePorts are the addresses on which node ports answer.
	NodePorts Selection
	// Addrs, if not empty, are the node's addresses whatever the Node object
	// says, primary first, per family (P-21).
	Addrs []netip.Addr

	Detector      vip.Detector
	MasqueradeAll bool
	// ServiceCIDRs are added to those that the store has.
	ServiceCIDRs []netip.Prefix
	// PodCIDRsFromNode takes the detector's ranges from the Node object. The
	// node is then not known before the object has some, for 5 minutes (P-20).
	PodCIDRsFromNode bool

	Log *slog.Logger
}

const (
	// pollFallback is how often the interfaces are listed where nobody tells of
	// changes, pollAlways how often where somebody does: the subscription may
	// have lost one.
	pollFallback = 5 * time.Second
	pollAlways   = 30 * time.Second
	// eventPause gathers the events of one change, and of many pods' coming and going.
	eventPause = 50 * time.Millisecond
	// podCIDRLimit is how long a start waits for the node's pod ranges.
	podCIDRLimit = 5 * time.Minute
)

// Source keeps the node current. It implements [vip.NodeSource].
type Source struct {
	*vip.Cell[vip.Node]

	config Config
	log    *slog.Logger
	system system

	// All below belongs to Run.
	machine  machine
	notes    []string
	deadline time.Time // for the pod ranges
}

var _ vip.NodeSource = (*Source)(nil)

// system is the machine that this process runs on, or a test's.
type system struct {
	list  func() (machine, error)
	watch func(ctx context.Context, changed func()) error
}

// New returns a source whose node is not known before Run.
func New(config Config) (*Source, error) { return newSource(config, hostSystem()) }

// Once returns the node as it is now, for commands that don't stay. The
// config's Store is not used.
func Once(config Config, snapshot *discovery.Snapshot) (*vip.Node, error) {
	config, err := config.named()
	if err != nil {
		return nil, err
	}
	m, err := hostSystem().list()
	if err != nil {
		return nil, err
	}
	return resolve(config, m, snapshot).node, nil
}

// named fills in the host name.
func (c Config) named() (Config, error) {
	if c.Name != "" {
		return c, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return c, fmt.Errorf("finding the node's name: %w", err)
	}
	c.Name = strings.ToLower(strings.TrimSpace(name))
	return c, nil
}

func newSource(config Config, s system) (*Source, error) {
	config, err := config.named()
	if err != nil {
		return nil, err
	}
	log := config.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{Cell: vip.NewCell[vip.Node](nil), config: config, log: log, system: s}, nil
}

// Run works until the context ends. The node is known once the store is synced
// and the interfaces could be listed.
func (s *Source) Run(ctx context.Context) error {
	snapshot, err := s.config.Store.Wait(ctx, func(snap *discovery.Snapshot) bool { return snap.Synced })
	if err != nil {
		return nil
	}
	events, lost := make(chan struct{}, 1), make(chan error, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { lost <- s.system.watch(ctx, func() { wake(events) }) })

	s.deadline = time.Now().Add(podCIDRLimit)
	s.list()
	s.publish(snapshot)
	poll := pollAlways
	for {
		timer := time.NewTimer(poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case err := <-lost:
			if ctx.Err() == nil {
				poll = pollFallback
				s.log.Warn("nobody tells of address changes; looking for them", "error", err, "every", poll)
			}
		case <-timer.C:
			s.list()
		case <-events:
			pause(ctx, eventPause)
			s.list()
		case <-s.config.Store.Changed(snapshot.Revision):
			before := snapshot
			snapshot = s.config.Store.Current()
			if maps.Equal(before.Nodes, snapshot.Nodes) && slices.Equal(before.ServiceCIDRs, snapshot.ServiceCIDRs) {
				continue // services or pods changed
			}
		}
		timer.Stop()
		s.publish(snapshot)
	}
}

// wake leaves a message unless one is waiting already.
func wake(events chan struct{}) {
	select {
	case events <- struct{}{}:
	default:
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// list looks at the interfaces; what can't be read stays as it was.
func (s *Source) list() {
	m, err := s.system.list()
	if err != nil {
		s.log.Warn("interface addresses can't be read; keeping the last ones", "error", err)
		return
	}
	s.machine = m
}

// publish replaces the node if it is another one.
func (s *Source) publish(snapshot *discovery.Snapshot) {
	f := resolve(s.config, s.machine, snapshot)
	s.tell(f.notes)
	if s.waitsForRanges(f.node) {
		return
	}
	old := s.Current()
	if f.node.Equal(old) {
		return
	}
	s.log.Info("node", "name", f.node.Name, "zone", f.node.Zone, "addresses", f.node.Addrs, "node_port_addresses", f.node.NodePortAddrs)
	s.Set(f.node)
}

// waitsForRanges reports whether the start has to wait for the node's pod
// ranges.
func (s *Source) waitsForRanges(n *vip.Node) bool {
	return s.config.PodCIDRsFromNode && s.Current() == nil && len(n.Detector.CIDRs) == 0 && time.Now().Before(s.deadline)
}

// tell logs what is new to be said.
func (s *Source) tell(notes []string) {
	for _, text := range notes {
		if !slices.Contains(s.notes, text) {
			s.log.Warn("node: " + text)
		}
	}
	s.notes = notes
}
