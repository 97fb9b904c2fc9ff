package userspace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// routes is what addresses needs of the kernel.
type routes interface {
	// list returns what is local to this node: what others made so, and what
	// routes of ours did.
	list() (foreign, own []netip.Prefix, err error)
	add(netip.Prefix) error
	remove(netip.Prefix) error
	close()
}

// addresses makes addresses local and undoes it when nobody uses them any more.
// Users are servers and established connections. The service ranges are local
// as a whole: that is one route for all cluster addresses, and those that no
// service has are refused (F-16). Safe for concurrent use.
type addresses struct {
	kernel routes

	mu      sync.Mutex
	frozen  bool  // the kernel stays as it is
	looked  error // why the last look failed
	foreign map[netip.Addr]struct{}
	own     map[netip.Prefix]struct{}
	nets    []netip.Prefix // whole nets to rely on: foreign ones and our service ranges
	ranges  []netip.Prefix // the service ranges
	users   map[netip.Addr]int
}

var loopback4 = netip.MustParsePrefix("127.0.0.0/8")

func newAddresses(kernel routes) *addresses {
	return &addresses{
		kernel: kernel, nets: []netip.Prefix{loopback4},
		foreign: make(map[netip.Addr]struct{}), own: make(map[netip.Prefix]struct{}), users: make(map[netip.Addr]int),
	}
}

// look reads what is local now, and makes the service ranges so. When the
// former fails, every address that needs a look reports why; those of
// 127.0.0.0/8 need none. An error is about a range.
func (a *addresses) look(ranges []netip.Prefix) error {
	foreign, own, err := a.kernel.list()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.looked = err; err != nil {
		return nil
	}
	clear(a.foreign)
	clear(a.own)
	a.nets, a.ranges = []netip.Prefix{loopback4}, ranges
	for _, p := range foreign {
		if p.IsSingleIP() {
			a.foreign[p.Addr()] = struct{}{}
		} else {
			a.nets = append(a.nets, p)
		}
	}
	for _, p := range own {
		a.own[p] = struct{}{}
	}
	var failed []error
	for _, p := range ranges {
		failed = append(failed, a.ensureRange(p))
	}
	return errors.Join(failed...)
}

func (a *addresses) ensureRange(p netip.Prefix) error {
	if slices.ContainsFunc(a.nets, func(n netip.Prefix) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) }) {
		return nil
	}
	if _, ok := a.own[p]; !ok {
		if err := a.add(p); err != nil {
			return err
		}
	}
	a.nets = append(a.nets, p)
	return nil
}

// use counts one more user of the address.
func (a *addresses) use(addr netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.users[addr]++
}

// ensure makes the address local if it isn't.
func (a *addresses) ensure(addr netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isLocal(addr) {
		return nil
	}
	if a.looked != nil {
		return a.looked
	}
	return a.add(host(addr))
}

func (a *addresses) isLocal(addr netip.Addr) bool {
	_, foreign := a.foreign[addr]
	_, own := a.own[host(addr)]
	return foreign || own || a.covered(addr)
}

func (a *addresses) covered(addr netip.Addr) bool {
	return slices.ContainsFunc(a.nets, func(n netip.Prefix) bool { return n.Contains(addr) })
}

func host(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

func (a *addresses) add(p netip.Prefix) error {
	switch err := a.kernel.add(p); {
	case errors.Is(err, unix.EEXIST): // somebody else did it since the last look
		a.foreign[p.Addr()] = struct{}{}
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("making %s local: CAP_NET_ADMIN is missing (without it use addresses of 127.0.0.0/8, or have an administrator run: ip route add local %s dev lo): %w", p, p, err)
	case err != nil:
		return fmt.Errorf("making %s local: %w", p, err)
	default:
		a.own[p] = struct{}{}
	}
	return nil
}

// release takes one user away, and with the last one of a made-local address
// the route. An error leaves the route to the next sweep.
func (a *addresses) release(addr netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.users[addr]--
	if a.users[addr] > 0 {
		return nil
	}
	delete(a.users, addr)
	if _, ok := a.own[host(addr)]; !ok || a.frozen {
		return nil
	}
	return a.remove(host(addr))
}

// sweep removes routes of ours that nobody needs (any more): an earlier process
// or an earlier configuration made them.
func (a *addresses) sweep() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed []error
	for p := range a.own {
		used := p.IsSingleIP() && a.users[p.Addr()] > 0 && !a.covered(p.Addr())
		if !used && !slices.Contains(a.ranges, p) {
			failed = append(failed, a.remove(p))
		}
	}
	return errors.Join(failed...)
}

// removeAll removes every route of ours, used or not.
func (a *addresses) removeAll() error {
	_, own, err := a.kernel.list()
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed []error
	for _, p := range own {
		failed = append(failed, a.remove(p))
	}
	return errors.Join(failed...)
}

func (a *addresses) remove(p netip.Prefix) error {
	err := a.kernel.remove(p)
	if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it is gone already
		return fmt.Errorf("removing the local route to %s: %w", p, err)
	}
	delete(a.own, p)
	return nil
}

// used reports whether what stopped being local matters to anybody.
func (a *addresses) used(p netip.Prefix) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.IsSingleIP() {
		return a.users[p.Addr()] > 0 && !a.covered(p.Addr())
	}
	return slices.Contains(a.nets, p)
}

// freeze leaves the kernel as it is from now on, whoever releases what.
func (a *addresses) freeze() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frozen = true
}

func (a *addresses) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kernel.close()
}
