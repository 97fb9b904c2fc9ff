package viptest

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"signpost/vip"
)

// Connect sends the first packet of a connection and says what became of it.
// Endpoints take turns; a server with affinity remembers its clients.
func (f *Fake) Connect(p Packet) Result {
	r, found := f.kernel.find(p.To)
	switch {
	case !found && (f.kernel.captures(p.To.Addr) || f.kernel.inServiceRange(p.To.Addr)):
		return Result{Action: Reject}
	case !found:
		return Result{Action: Pass}
	case r.deny && !contains(r.allow, p):
		return Result{Action: Drop}
	}
	a := r.actions[p.Source]
	if len(a.to) == 0 {
		return Result{Action: a.empty}
	}
	chosen := f.choose(p, r.affinity, a.to)
	return Result{Action: Forward, Endpoint: chosen, SNAT: a.snat || chosen.Addr() == p.From}
}

func contains(allow []netip.Prefix, p Packet) bool {
	return slices.ContainsFunc(allow, func(n netip.Prefix) bool { return n.Contains(p.From) })
}

// choose picks an endpoint: the client's own while it is there and the time
// is not up (P-16), else the next in turn.
func (f *Fake) choose(p Packet, affinity time.Duration, to []netip.AddrPort) netip.AddrPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn++
	chosen, key := to[f.turn%len(to)], stickyKey{client: p.From, to: p.To}
	if affinity == 0 {
		return chosen
	}
	if s := f.sticky[key]; slices.Contains(to, s.to) && time.Now().Before(s.until) {
		chosen = s.to
	}
	f.sticky[key] = stuck{to: chosen, until: time.Now().Add(affinity)}
	return chosen
}

// Frontends lists what the kernel holds, in order, foreign rules included.
func (f *Fake) Frontends() []vip.Frontend {
	f.kernel.mu.Lock()
	defer f.kernel.mu.Unlock()
	list := make([]vip.Frontend, 0, len(f.kernel.rules))
	for frontend := range f.kernel.rules {
		list = append(list, frontend)
	}
	slices.SortFunc(list, vip.Frontend.Compare)
	return list
}

// Operations returns what the kernel was asked since the last call.
func (f *Fake) Operations() []Operation {
	f.kernel.mu.Lock()
	defer f.kernel.mu.Unlock()
	list := f.kernel.operations
	f.kernel.operations = nil
	return list
}

// AddForeign gives the kernel a rule of another program.
func (f *Fake) AddForeign(frontend vip.Frontend) {
	f.kernel.mu.Lock()
	defer f.kernel.mu.Unlock()
	f.kernel.rules[frontend] = rule{foreign: true}
}

// Flush does what another program's flush does: our rules are gone, all of
// them or those given, and whoever watches is told.
func (f *Fake) Flush(only ...vip.Frontend) {
	f.kernel.mu.Lock()
	for frontend, r := range f.kernel.rules {
		if !r.foreign && (len(only) == 0 || slices.Contains(only, frontend)) {
			delete(f.kernel.rules, frontend)
		}
	}
	f.kernel.mu.Unlock()

	f.mu.Lock()
	f.stale = true
	watchers := make([]func(), 0, len(f.drift))
	for drift := range f.drift {
		watchers = append(watchers, *drift)
	}
	f.mu.Unlock()
	for _, drift := range watchers {
		drift()
	}
}

// Violations returns how the caller broke the contract of [vip.Backend]: by
// calling Apply concurrently, or with a have that the kernel doesn't hold.
func (f *Fake) Violations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

func (f *Fake) violate(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}

// checkHave compares what the caller believes with what is there.
func (f *Fake) checkHave(have *vip.State) {
	f.mu.Lock()
	stale := f.stale
	f.mu.Unlock()
	if stale {
		return
	}
	f.kernel.mu.Lock()
	var wrong []vip.Frontend
	for v := range have.All() {
		if there, exists := f.kernel.rules[v.Frontend]; !exists || !there.equal(compile(v)) {
			wrong = append(wrong, v.Frontend)
		}
	}
	f.kernel.mu.Unlock()
	for _, frontend := range wrong {
		f.violate("have holds %s, the kernel does not", frontend)
	}
}
