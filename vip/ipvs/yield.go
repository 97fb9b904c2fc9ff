package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"signpost/vip/internal/ruleset"
)

// An address on the device is what the kernel lets this node's own connections
// to it come from. They could not outlive the address. One that is local by a
// route has the source that the route says:
//
//	ip route append local 10.96.0.7 dev lo table local src 192.168.6.1 proto 84
//
// Connections that come from the address itself go on, too: it is local.

// Yield prepares for another mode's taking over: from now on this node's new
// connections to cluster addresses come from its own address, so that they live
// on when the cluster addresses are gone; and the other mode may translate what
// goes to IPVS. The next Apply takes it back.
func (b *Backend) Yield(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.node == nil {
		return nil // nothing was ever made
	}
	if err := b.reopen(); err != nil {
		return err
	}
	routes := b.planes.addresses.routes
	bound, err := routes.bound()
	if err != nil {
		return err
	}
	b.rules.held = nil // so that it looks
	errs := []error{b.planes.table.Commit(ctx, &ruleset.Transaction{Chains: opened(kept())})}
	for a := range bound {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		errs = append(errs, yieldOne(routes, a, b.node.Addrs))
	}
	return errors.Join(errs...)
}

// yieldOne has connections to an address come from the first of this node's
// addresses that the kernel knows as such: a Node object may name others.
func yieldOne(routes routes, a netip.Addr, own []netip.Addr) error {
	for _, source := range own {
		if source.Is6() != a.Is6() {
			continue
		}
		err := routes.yield(a, source)
		if !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return nil // they come from the address itself as long as it is there
}

// reopen connects to the kernel, if we are not connected.
func (b *Backend) reopen() error {
	planes, err := b.openForCleanup()
	if err != nil {
		return err
	}
	if b.planes != planes {
		b.planes = planes
		b.rules.connect(planes.table)
	}
	return nil
}

// yield adds the route before it takes the address off the device.
func (r *rtnetlink) yield(addr, source netip.Addr) error {
	route := r.localRoute(addr)
	route.Src = source.AsSlice()
	add := r.handle.RouteReplace
	if r.device != nil {
		add = r.handle.RouteAppend // the kernel's own is there, until the address goes
	}
	if err := add(route); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("routing %q from %q: %w", addr, source, err)
	}
	if r.device == nil {
		return nil
	}
	if err := r.handle.AddrDel(r.device, deviceAddress(addr)); err != nil && !gone(err) {
		return fmt.Errorf("leaving %q to its route: %w", addr, err)
	}
	return nil
}

// rebind puts what is local by a route on the device, if there is one.
func (r *rtnetlink) rebind() error {
	sources := map[netip.Addr]net.IP{}
	errs := []error{r.routed(func(addr netip.Addr, source net.IP) { sources[addr] = source })}
	for addr, source := range sources {
		switch {
		case r.device != nil:
			errs = append(errs, r.toDevice(addr))
		case source != nil:
			if err := r.handle.RouteReplace(r.localRoute(addr)); err != nil {
				errs = append(errs, fmt.Errorf("routing %q: %w", addr, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *rtnetlink) toDevice(addr netip.Addr) error {
	if err := r.handle.AddrAdd(r.device, deviceAddress(addr)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("binding %q: %w", addr, err)
	}
	if err := r.handle.RouteDel(r.localRoute(addr)); err != nil && !gone(err) {
		return fmt.Errorf("leaving %q to its device: %w", addr, err)
	}
	return nil
}
