package userspace

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// routes is what addresses needs of the kernel.
type routes interface {
	// list returns the prefixes that are local to this node: those that others
	// made so, and those that routes of ours did.
	list() (foreign, own []netip.Prefix, err error)
	add(netip.Addr) error
	remove(netip.Addr) error
	close()
}

// addresses makes addresses local and undoes it when nobody uses them any more.
// Users are servers and established connections. Safe for concurrent use.
type addresses struct {
	kernel routes

	mu      sync.Mutex
	frozen  bool // the kernel stays as it is
	looked  error
	foreign map[netip.Addr]struct{} // whole addresses
	nets    []netip.Prefix          // 127.0.0.0/8 and its like
	own     map[netip.Addr]struct{}
	users   map[netip.Addr]int
}

var loopback4 = netip.MustParsePrefix("127.0.0.0/8")

func newAddresses(kernel routes) *addresses {
	return &addresses{
		kernel: kernel, nets: []netip.Prefix{loopback4},
		foreign: make(map[netip.Addr]struct{}), own: make(map[netip.Addr]struct{}), users: make(map[netip.Addr]int),
	}
}

// look reads what is local now. When that fails, every address that needs a
// look reports the reason; those of 127.0.0.0/8 need none.
func (a *addresses) look() {
	foreign, own, err := a.kernel.list()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looked = err
	if err != nil {
		return
	}
	a.nets = []netip.Prefix{loopback4}
	a.foreign, a.own = make(map[netip.Addr]struct{}), make(map[netip.Addr]struct{})
	for _, p := range foreign {
		if p.IsSingleIP() {
			a.foreign[p.Addr()] = struct{}{}
		} else {
			a.nets = append(a.nets, p)
		}
	}
	for _, p := range own {
		a.own[p.Addr()] = struct{}{}
	}
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
	switch err := a.kernel.add(addr); {
	case errors.Is(err, unix.EEXIST): // somebody else did it since the last look
		a.foreign[addr] = struct{}{}
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("making %s a local address: CAP_NET_ADMIN is missing (without it use addresses of 127.0.0.0/8, or have an administrator run: ip route add local %s dev lo): %w",
			addr, netip.PrefixFrom(addr, addr.BitLen()), err)
	case err != nil:
		return fmt.Errorf("making %s a local address: %w", addr, err)
	default:
		a.own[addr] = struct{}{}
	}
	return nil
}

func (a *addresses) isLocal(addr netip.Addr) bool {
	if _, ok := a.own[addr]; ok {
		return true
	}
	if _, ok := a.foreign[addr]; ok {
		return true
	}
	for _, p := range a.nets {
		if p.Contains(addr) {
			return true
		}
	}
	return false
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
	if _, ok := a.own[addr]; !ok || a.frozen {
		return nil
	}
	return a.remove(addr)
}

// sweep removes routes of ours that nobody uses: an earlier process made them.
func (a *addresses) sweep() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed []error
	for addr := range a.own {
		if a.users[addr] == 0 {
			failed = append(failed, a.remove(addr))
		}
	}
	return errors.Join(failed...)
}

// removeAll removes every route of ours, used or not.
func (a *addresses) removeAll() error {
	if a.look(); a.looked != nil {
		return a.looked
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed []error
	for addr := range a.own {
		failed = append(failed, a.remove(addr))
	}
	return errors.Join(failed...)
}

func (a *addresses) remove(addr netip.Addr) error {
	err := a.kernel.remove(addr)
	if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it is gone already
		return fmt.Errorf("removing the local route to %s: %w", addr, err)
	}
	delete(a.own, addr)
	return nil
}

// used reports whether a prefix that stopped being local matters to anybody.
func (a *addresses) used(p netip.Prefix) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.IsSingleIP() {
		return a.users[p.Addr()] > 0
	}
	return len(a.users) > 0
}

// freeze leaves the kernel as it is from now on, whoever releases what.
func (a *addresses) freeze() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frozen = true
}

func (a *addresses) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kernel.close()
	return nil
}
