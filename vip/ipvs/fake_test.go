package ipvs

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
	"signpost/vip/viptest"
)

// machine is a kernel made of maps that refuses what a kernel refuses. It
// outlives the backends that program it.
type machine struct {
	t          testing.TB
	servers    map[serverKey]*fakeServer
	elements   map[ruleset.Slot]ruleset.Element
	made       bool // the table exists
	rules      map[string]ruleset.Chain
	generation uint32
	bound      map[netip.Addr]bool
	captures   map[uint16]bool
	sources    map[netip.Addr]netip.Addr // of what is local by a route
	log        []string
	fail       func(operation string) error
	turn       int
	hide       func(serverKey) bool // what dumps leave out
}

type fakeServer struct {
	spec         serverSpec
	destinations map[netip.AddrPort]*destination
}

func newMachine(t testing.TB) *machine {
	return &machine{
		t: t, servers: map[serverKey]*fakeServer{}, elements: map[ruleset.Slot]ruleset.Element{},
		rules: map[string]ruleset.Chain{}, bound: map[netip.Addr]bool{}, captures: map[uint16]bool{}, sources: map[netip.Addr]netip.Addr{},
	}
}

// backend returns a new process's view of the machine.
func (m *machine) backend(config Config) *Backend {
	config.Log = slog.New(slog.DiscardHandler)
	b := New(config)
	b.open = func() (*planes, error) {
		return &planes{
			servers: newServers(fakeKernel{m}, max(0, b.config.Drain)), addresses: addresses{routes: fakeRoutes{m}}, table: fakeTable{m},
			passage: noFilter{},
		}, nil
	}
	b.settings = func() {}
	return b
}

// noFilter is a host that filters nothing.
type noFilter struct{}

func (noFilter) ensure() error { return nil }
func (noFilter) intact() bool  { return true }
func (noFilter) remove() error { return nil }
func (noFilter) close()        {}

// do logs an operation and lets it fail if a test wants it to.
func (m *machine) do(format string, args ...any) error {
	operation := fmt.Sprintf(format, args...)
	if m.fail != nil {
		if err := m.fail(operation); err != nil {
			return err
		}
	}
	m.log = append(m.log, operation)
	return nil
}

// writes returns what was written since the last call.
func (m *machine) writes() []string {
	list := m.log
	m.log = nil
	return list
}

type fakeKernel struct{ *machine }

func (m fakeKernel) servers(context.Context) ([]listed, error) {
	var list []listed
	for key, s := range m.machine.servers {
		if m.hide == nil || !m.hide(key) {
			list = append(list, listed{key, s.spec})
		}
	}
	return list, nil
}

func (m fakeKernel) summaries(int) (iter.Seq[summary], bool, error) {
	return func(yield func(summary) bool) {
		for key, s := range m.machine.servers {
			if !key.frontend.Is6() && !yield(summary{listed{key, s.spec}, len(s.destinations)}) {
				return
			}
		}
	}, true, nil
}

func (m fakeKernel) destinations(_ context.Context, key serverKey) ([]destination, error) {
	s := m.machine.servers[key]
	if s == nil {
		return nil, unix.ESRCH
	}
	var list []destination
	for _, d := range s.destinations {
		list = append(list, *d)
	}
	return list, nil
}

func (m fakeKernel) addServer(_ context.Context, key serverKey, spec serverSpec) error {
	if m.machine.servers[key] != nil {
		return unix.EEXIST
	}
	if spec.scheduler == "none" {
		return unix.ENOENT
	}
	if err := m.do("add server %s", key); err != nil {
		return err
	}
	m.machine.servers[key] = &fakeServer{spec: spec, destinations: map[netip.AddrPort]*destination{}}
	return nil
}

func (m fakeKernel) setServer(_ context.Context, key serverKey, spec serverSpec) error {
	s := m.machine.servers[key]
	if s == nil {
		return unix.ESRCH
	}
	if err := m.do("set server %s %s", key, spec.scheduler); err != nil {
		return err
	}
	s.spec = spec
	return nil
}

func (m fakeKernel) deleteServer(_ context.Context, key serverKey) error {
	if m.machine.servers[key] == nil {
		return unix.ESRCH
	}
	if err := m.do("delete server %s", key); err != nil {
		return err
	}
	delete(m.machine.servers, key)
	return nil
}

func (m fakeKernel) addDestination(_ context.Context, key serverKey, to netip.AddrPort, weight int) error {
	s := m.machine.servers[key]
	switch {
	case s == nil:
		return unix.ESRCH
	case s.destinations[to] != nil:
		return unix.EEXIST
	}
	if err := m.do("add %s to %s", to, key); err != nil {
		return err
	}
	s.destinations[to] = &destination{to: to, weight: weight}
	return nil
}

func (m fakeKernel) setDestination(_ context.Context, key serverKey, to netip.AddrPort, weight int) error {
	s := m.machine.servers[key]
	switch {
	case s == nil:
		return unix.ESRCH
	case s.destinations[to] == nil:
		return unix.ENOENT
	}
	if err := m.do("set %s of %s to weight %d", to, key, weight); err != nil {
		return err
	}
	s.destinations[to].weight = weight
	return nil
}

func (m fakeKernel) deleteDestination(_ context.Context, key serverKey, to netip.AddrPort) error {
	s := m.machine.servers[key]
	switch {
	case s == nil:
		return unix.ESRCH
	case s.destinations[to] == nil:
		return unix.ENOENT
	}
	if err := m.do("delete %s of %s", to, key); err != nil {
		return err
	}
	delete(s.destinations, to)
	return nil
}

func (m fakeKernel) close() {}

type fakeRoutes struct{ *machine }

func (m fakeRoutes) prepare() error                        { return nil }
func (m fakeRoutes) capture(family uint16) error           { m.captures[family] = true; return nil }
func (m fakeRoutes) capturing(family uint16) (bool, error) { return m.captures[family], nil }
func (m fakeRoutes) bound() (map[netip.Addr]bool, error)   { return maps.Clone(m.machine.bound), nil }
func (m fakeRoutes) close()                                {}

func (m fakeRoutes) bind(a netip.Addr) error {
	if m.machine.bound[a] {
		return unix.EEXIST
	}
	if err := m.do("bind %s", a); err != nil {
		return err
	}
	m.machine.bound[a] = true
	return nil
}

func (m fakeRoutes) unbind(a netip.Addr) error {
	if !m.machine.bound[a] {
		return unix.EADDRNOTAVAIL
	}
	if err := m.do("unbind %s", a); err != nil {
		return err
	}
	delete(m.machine.bound, a)
	delete(m.sources, a)
	return nil
}

func (m fakeRoutes) yield(a, source netip.Addr) error {
	if !slices.Contains(nodeAddrs, source) {
		return unix.EINVAL
	}
	if err := m.do("yield %s", a); err != nil {
		return err
	}
	m.sources[a] = source
	return nil
}

func (m fakeRoutes) rebind() error { clear(m.sources); return nil }

func (m fakeRoutes) remove() error {
	m.machine.bound, m.captures = map[netip.Addr]bool{}, map[uint16]bool{}
	return nil
}

type fakeTable struct{ *machine }

func (m fakeTable) Generation(context.Context) (uint32, error) { return m.generation, nil }

func (m fakeTable) Port() uint32 { return 1 }

func (m fakeTable) Look(_ context.Context, chains []ruleset.Chain) (*ruleset.Contents, error) {
	return ruleset.NewContents(m.made, m.generation, slices.Collect(maps.Values(m.elements)), slices.Collect(maps.Values(m.rules))), nil
}

func (m fakeTable) Remove(context.Context) error {
	m.made, m.elements, m.rules = false, map[ruleset.Slot]ruleset.Element{}, map[string]ruleset.Chain{}
	m.generation++
	return nil
}

func (m fakeTable) Close() error { return nil }

// Commit makes all changes of a transaction or, if one is refused, none.
func (m fakeTable) Commit(_ context.Context, t *ruleset.Transaction) error {
	next, rules := maps.Clone(m.elements), maps.Clone(m.rules)
	if t.Create {
		clear(next)
		clear(rules)
	} else if !m.made {
		return unix.ENOENT
	}
	for _, e := range t.Del {
		if _, exists := next[e.Slot()]; !exists {
			m.t.Errorf("deleting an element of %s that is not there", e.Set.Name)
			return unix.ENOENT
		}
		delete(next, e.Slot())
	}
	for _, e := range t.Add {
		if old, exists := next[e.Slot()]; exists && old != e || overlaps(next, e) {
			m.t.Errorf("adding an element of %s that is there", e.Set.Name)
			return unix.EEXIST
		}
		next[e.Slot()] = e
	}
	for _, c := range t.Chains {
		rules[c.Name] = c
	}
	if err := m.do("commit %d+ %d-", len(t.Add), len(t.Del)); err != nil {
		return err
	}
	m.made, m.machine.elements, m.rules = true, next, rules
	m.generation++
	return nil
}

func overlaps(elements map[ruleset.Slot]ruleset.Element, e ruleset.Element) bool {
	if !e.Set.Intervals {
		return false
	}
	for _, o := range elements {
		if o.Set == e.Set && o != e && o.Key <= e.Last && e.Key <= o.Last {
			return true
		}
	}
	return false
}

// Connect does what chains.go and IPVS do with a packet, by what the machine
// holds.
func (m *machine) Connect(p viptest.Packet) viptest.Result {
	f := familyOf(p.To)
	s, key := setsOf[f], string(frontendKey(p.To))
	if m.has(s.restricted, key) && !m.inRanges(s.ranges, key+addressKey(p.From)) {
		return viptest.Result{Action: viptest.Drop}
	}
	gate, served := m.elements[ruleset.Slot{Set: s.from[p.Source], Key: key}]
	reached := p.Source == vip.FromNode || m.bound[p.To.Addr] || m.has(s.captured, key) || slices.Contains(nodeAddrs, p.To.Addr)
	switch {
	case !served && m.guarded(p.To.Addr):
		return viptest.Result{Action: viptest.Reject}
	case !served:
		return viptest.Result{Action: viptest.Pass}
	case gate.Chain == rejectChain:
		return viptest.Result{Action: viptest.Reject}
	case gate.Chain == dropChain:
		return viptest.Result{Action: viptest.Drop}
	case !reached:
		return viptest.Result{Action: viptest.Pass}
	}
	at, snat := serverKey{frontend: p.To}, gate.Chain == masqueradeChain
	if gate.Chain == markChain(f, p.Source) {
		mark := m.elements[ruleset.Slot{Set: s.marks, Key: key + string(sourceNumber(p.Source))}]
		at = byMark(p.To.Is6(), binary.NativeEndian.Uint32([]byte(mark.Value)))
		snat = at.mark&masqBit != 0
	}
	return m.schedule(at, p, snat)
}

func (m *machine) schedule(at serverKey, p viptest.Packet, snat bool) viptest.Result {
	server := m.servers[at]
	if server == nil {
		return viptest.Result{Action: viptest.Pass}
	}
	var able []netip.AddrPort
	for to, d := range server.destinations {
		if d.weight > 0 {
			able = append(able, to)
		}
	}
	if len(able) == 0 {
		return viptest.Result{Action: viptest.Reject}
	}
	slices.SortFunc(able, netip.AddrPort.Compare)
	m.turn++
	to := able[m.turn%len(able)]
	// An endpoint elsewhere that reaches itself does not come by here; the model
	// asks for it all the same.
	return viptest.Result{Action: viptest.Forward, Endpoint: to, SNAT: snat || p.From == to.Addr()}
}

func (m *machine) has(set *ruleset.Set, key string) bool {
	_, ok := m.elements[ruleset.Slot{Set: set, Key: key}]
	return ok
}

func (m *machine) inRanges(set *ruleset.Set, key string) bool {
	for _, e := range m.elements {
		if e.Set == set && e.Key <= key && key <= e.Last {
			return true
		}
	}
	return false
}

// guarded reads the addresses that are refused out of the sets and the rules.
func (m *machine) guarded(a netip.Addr) bool {
	f := ruleset.FamilyOf(a.Is6())
	if m.has(setsOf[f].clusterIPs, addressKey(a)) {
		return true
	}
	want := unserved(f, &vip.Node{ServiceCIDRs: serviceRanges})
	made := slices.EqualFunc(want, m.rules[elseChain(f)].Rules, func(a, b ruleset.Rule) bool { return a.Label() == b.Label() })
	return made && slices.ContainsFunc(serviceRanges, func(p netip.Prefix) bool { return p.Contains(a) })
}

// What all nodes of the tests have.
var (
	nodeAddrs     = []netip.Addr{netip.MustParseAddr("192.168.6.1"), netip.MustParseAddr("fd00:6::1")}
	serviceRanges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}
)

// frontends lists the IPVS servers, in order.
func (m *machine) frontends() []string {
	var list []string
	for key := range m.servers {
		list = append(list, key.String())
	}
	slices.SortFunc(list, cmp.Compare)
	return list
}
