package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// routes is what this package needs of rtnetlink.
type routes interface {
	// prepare makes what depends on no address: the device, where there can be
	// one, and the way by which captured packets of a family come in.
	prepare() error
	capture(family uint16) error
	capturing(family uint16) (bool, error)
	// bound lists the addresses that are ours and local. It makes nothing.
	bound() (map[netip.Addr]bool, error)
	bind(addr netip.Addr) error
	unbind(addr netip.Addr) error
	// yield keeps a bound address local in such a way that this node's new
	// connections to it come from source, an address of its own; rebind undoes
	// that for all of them. The address is local all the time.
	yield(addr, source netip.Addr) error
	rebind() error
	// remove takes back everything, whichever process made it.
	remove() error
	close()
}

// addresses are the cluster addresses that are local to this node (I-03), and
// with them the way to IPVS for packets to other addresses.
type addresses struct {
	routes routes
	held   map[netip.Addr]bool
	noIPv6 error // why IPv6 packets can't be captured
}

// look makes what depends on no address and learns which ones are bound.
func (a *addresses) look() error {
	if err := a.routes.prepare(); err != nil {
		return err
	}
	if err := a.routes.capture(unix.AF_INET); err != nil {
		return err
	}
	a.noIPv6 = a.routes.capture(unix.AF_INET6)
	if err := a.routes.rebind(); err != nil {
		return err
	}
	held, err := a.routes.bound()
	a.held = held
	return err
}

// capturable says why packets to the address can't be captured.
func (a *addresses) capturable(addr netip.Addr) error {
	if addr.Is4() || a.noIPv6 == nil {
		return nil
	}
	return refusalError{fmt.Sprintf("capturing packets to %q: is IPv6 switched off on this node (disable_ipv6)? %v", addr, a.noIPv6)}
}

// bind makes an address local.
func (a *addresses) bind(addr netip.Addr) error {
	if a.held[addr] {
		return nil
	}
	err := a.routes.bind(addr)
	switch {
	case errors.Is(err, unix.EACCES) && addr.Is6():
		return refusalError{fmt.Sprintf("binding %q: IPv6 is switched off on this node (disable_ipv6)", addr)}
	case err != nil && !errors.Is(err, unix.EEXIST):
		return refuse(fmt.Sprintf("binding %q", addr), err)
	}
	a.held[addr] = true
	return nil
}

// unbind takes back an address that bind made local.
func (a *addresses) unbind(addr netip.Addr) error {
	if err := a.routes.unbind(addr); err != nil && !gone(err) {
		return fmt.Errorf("unbinding %q: %w", addr, err)
	}
	delete(a.held, addr)
	return nil
}

// intact reports whether everything bound is still bound, and captured packets
// are still routed here.
func (a *addresses) intact() bool {
	now, err := a.routes.bound()
	if err != nil {
		return false
	}
	for addr := range a.held {
		if !now[addr] {
			return false
		}
	}
	for _, family := range families {
		capturing, err := a.routes.capturing(family)
		if (err != nil || !capturing) && (family == unix.AF_INET || a.noIPv6 == nil) {
			return false
		}
	}
	return true
}

// gone reports whether the kernel says that there is nothing to remove.
func gone(err error) bool {
	return slices.ContainsFunc([]error{unix.EADDRNOTAVAIL, unix.ENXIO, unix.ENODEV, unix.ESRCH, unix.ENOENT}, func(e error) bool { return errors.Is(err, e) })
}
