package ipvs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What we make in rtnetlink, as `ip` shows it.
const (
	// Device holds the cluster addresses ("ip addr show signpost-ipvs").
	Device = "signpost-ipvs"
	// RouteProtocol is on the routes and rules that we make ("proto 84"), and
	// RouteTable the table that makes captured packets local.
	RouteProtocol = 84
	RouteTable    = 84
	// rulePriority puts our rule before all tables but the local one.
	rulePriority = 84
)

const rtnetlinkTimeout = 10 * time.Second

// rtnetlink makes addresses local on a dummy device, or where the kernel has
// none, by a local route for each.
type rtnetlink struct {
	handle *netlink.Handle
	lo     int
	device netlink.Link // nil: local routes
}

// openRoutes opens a socket in the calling thread's network namespace.
func openRoutes() (*rtnetlink, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening netlink: %w", err)
	}
	r := &rtnetlink{handle: h}
	if err := h.SetSocketTimeout(rtnetlinkTimeout); err != nil {
		h.Close()
		return nil, fmt.Errorf("bounding netlink requests: %w", err)
	}
	lo, err := h.LinkByName("lo")
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("finding the loopback device: %w", err)
	}
	r.lo = lo.Attrs().Index
	return r, nil
}

func (r *rtnetlink) close() { r.handle.Close() }

func (r *rtnetlink) prepare() error {
	device, err := r.findDevice()
	if err == nil && device == nil {
		device, err = r.makeDevice()
	}
	r.device = device
	return err
}

func (r *rtnetlink) bound() (map[netip.Addr]bool, error) {
	device, err := r.findDevice()
	if err != nil {
		return nil, err
	}
	r.device = device
	bound := map[netip.Addr]bool{}
	return bound, errors.Join(r.onDevice(device, bound), r.byRoute(bound))
}

// findDevice returns the dummy device; nil: there is none.
func (r *rtnetlink) findDevice() (netlink.Link, error) {
	device, err := r.handle.LinkByName(Device)
	switch {
	case err == nil:
		return device, nil
	case errors.As(err, &netlink.LinkNotFoundError{}):
		return nil, nil
	}
	return nil, fmt.Errorf("finding device %q: %w", Device, err)
}

// makeDevice makes the device; nil: the kernel has no dummy devices.
func (r *rtnetlink) makeDevice() (netlink.Link, error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = Device
	err := r.handle.LinkAdd(&netlink.Dummy{LinkAttrs: attributes})
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return nil, nil
	case err != nil && !errors.Is(err, unix.EEXIST):
		return nil, fmt.Errorf("making device %q: %w", Device, err)
	}
	return r.findDevice()
}

func (r *rtnetlink) onDevice(device netlink.Link, bound map[netip.Addr]bool) error {
	if device == nil {
		return nil
	}
	for _, family := range families {
		list, err := r.handle.AddrList(device, int(family))
		if err != nil {
			return fmt.Errorf("listing the addresses of %q: %w", Device, err)
		}
		for _, found := range list {
			if ip, ok := netip.AddrFromSlice(found.IP); ok && !ip.Unmap().IsLinkLocalUnicast() {
				bound[ip.Unmap()] = true
			}
		}
	}
	return nil
}

func (r *rtnetlink) byRoute(bound map[netip.Addr]bool) error {
	return r.routed(func(addr netip.Addr, _ net.IP) { bound[addr] = true })
}

// routed yields the addresses that are local by a route of ours, and what this
// node's own connections to them come from; nil: from the address itself.
func (r *rtnetlink) routed(yield func(addr netip.Addr, source net.IP)) error {
	wanted := &netlink.Route{Table: unix.RT_TABLE_LOCAL, Protocol: RouteProtocol}
	const mask = netlink.RT_FILTER_TABLE | netlink.RT_FILTER_PROTOCOL
	for _, family := range families {
		err := r.handle.RouteListFilteredIter(int(family), wanted, mask, func(route netlink.Route) bool {
			if route.Dst != nil {
				if ip, ok := netip.AddrFromSlice(route.Dst.IP); ok {
					yield(ip.Unmap(), route.Src)
				}
			}
			return true
		})
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("listing local routes: %w", err)
		}
	}
	return nil
}

//nolint:wrapcheck // addresses.bind does
func (r *rtnetlink) bind(addr netip.Addr) error {
	if r.device != nil {
		return r.handle.AddrAdd(r.device, deviceAddress(addr))
	}
	return r.handle.RouteAdd(r.localRoute(addr))
}

// unbind takes back an address, be it on the device or local by a route.
//
//nolint:wrapcheck // addresses.unbind does
func (r *rtnetlink) unbind(addr netip.Addr) error {
	if r.device != nil {
		if err := r.handle.AddrDel(r.device, deviceAddress(addr)); err == nil || !gone(err) {
			return err
		}
	}
	return r.handle.RouteDel(r.localRoute(addr))
}

func single(addr netip.Addr) *net.IPNet {
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}
}

func deviceAddress(addr netip.Addr) *netlink.Addr {
	a := &netlink.Addr{IPNet: single(addr)}
	if addr.Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

func (r *rtnetlink) localRoute(addr netip.Addr) *netlink.Route {
	return &netlink.Route{
		LinkIndex: r.lo, Dst: single(addr), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL,
		Scope: netlink.SCOPE_HOST, Protocol: RouteProtocol,
	}
}

func (r *rtnetlink) remove() error {
	var errs []error
	for _, family := range families {
		errs = append(errs, r.release(family))
	}
	device, err := r.findDevice()
	errs = append(errs, err)
	if device != nil {
		if err := r.handle.LinkDel(device); err != nil && !gone(err) {
			errs = append(errs, fmt.Errorf("removing device %q: %w", Device, err))
		}
	}
	routed := map[netip.Addr]bool{}
	errs = append(errs, r.byRoute(routed))
	for addr := range routed {
		if err := r.handle.RouteDel(r.localRoute(addr)); err != nil && !gone(err) {
			errs = append(errs, fmt.Errorf("unbinding %q: %w", addr, err))
		}
	}
	r.device = nil
	return errors.Join(errs...)
}
