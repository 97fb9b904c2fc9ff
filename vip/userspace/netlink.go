package userspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// RouteProtocol is the protocol number on the routes that this backend makes,
// as "ip route show table local proto 83" finds them. Whatever has another
// number is not touched.
const RouteProtocol = 83

// netlinkRoutes speaks to the kernel. The socket is opened at the first use, so
// it belongs to the network namespace of the first Apply or Cleanup.
type netlinkRoutes struct {
	handle *netlink.Handle
	lo     int
	// source returns the node's address of a family, if it has one: it becomes
	// the source of whoever on this node connects to a made-local address. Else
	// that would be the virtual address itself, and the connection would end with
	// the route.
	source func(v6 bool) netip.Addr
}

func (r *netlinkRoutes) open() error {
	if r.handle != nil {
		return nil
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	lo, err := h.LinkByName("lo")
	if err != nil {
		h.Close()
		return fmt.Errorf("finding the loopback device: %w", err)
	}
	r.handle, r.lo = h, lo.Attrs().Index
	return nil
}

func (r *netlinkRoutes) list() (foreign, own []netip.Prefix, err error) {
	if err := r.open(); err != nil {
		return nil, nil, err
	}
	wanted := &netlink.Route{Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}
	const mask = netlink.RT_FILTER_TABLE | netlink.RT_FILTER_TYPE
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		err := r.handle.RouteListFilteredIter(family, wanted, mask, func(route netlink.Route) bool {
			switch p, ok := destination(&route); {
			case ok && route.Protocol == RouteProtocol:
				own = append(own, p)
			case ok:
				foreign = append(foreign, p)
			}
			return true
		})
		// A kernel without the family has no addresses of it either.
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return nil, nil, fmt.Errorf("listing local routes: %w", err)
		}
	}
	return foreign, own, nil
}

func destination(route *netlink.Route) (netip.Prefix, bool) {
	if route.Dst == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(route.Dst.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	bits, _ := route.Dst.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits), true
}

func (r *netlinkRoutes) add(p netip.Prefix) error {
	if err := r.open(); err != nil {
		return err
	}
	route := r.route(p)
	if from := r.source(p.Addr().Is6()); from.IsValid() {
		route.Src = from.AsSlice()
	}
	err := r.handle.RouteAdd(route)
	if errors.Is(err, unix.EINVAL) && route.Src != nil { // the address is not on this machine
		route.Src = nil
		err = r.handle.RouteAdd(route)
	}
	return err //nolint:wrapcheck // addresses does
}

func (r *netlinkRoutes) remove(p netip.Prefix) error {
	if err := r.open(); err != nil {
		return err
	}
	return r.handle.RouteDel(r.route(p)) //nolint:wrapcheck // addresses does
}

func (r *netlinkRoutes) route(p netip.Prefix) *netlink.Route {
	return &netlink.Route{
		LinkIndex: r.lo,
		Dst:       &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())},
		Table:     unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST,
		Protocol: RouteProtocol,
	}
}

func (r *netlinkRoutes) close() {
	if r.handle != nil {
		r.handle.Close()
		r.handle = nil
	}
}

// Watch is part of [vip.Watcher]: it notices when an address that is in use
// stops being local, by whoever's hand.
func (b *Backend) Watch(ctx context.Context, drift func()) error {
	updates, done := make(chan netlink.RouteUpdate), make(chan struct{})
	failed := make(chan error, 1)
	err := netlink.RouteSubscribeWithOptions(updates, done, netlink.RouteSubscribeOptions{
		ErrorCallback: func(err error) {
			select {
			case failed <- err:
			default:
			}
		},
	})
	if err != nil {
		close(done)
		return fmt.Errorf("watching routes: %w", err)
	}
	defer func() {
		close(done)
		for range updates { // until the library's reader has ended
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return fmt.Errorf("watching routes: %w", err)
		case u := <-updates:
			if p, ok := destination(&u.Route); ok && u.Type == unix.RTM_DELROUTE && u.Table == unix.RT_TABLE_LOCAL && b.addrs.used(p) {
				drift()
			}
		}
	}
}
