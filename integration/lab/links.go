package lab

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Every link is a veth pair. The far end, in the host, is eth0 with the host's
// addresses and a default route; the near end, in a node or the router, has no
// address at all, only routes to those of the host. The gateway is an address
// that nobody has: both ends know each other's hardware address by heart, so
// nothing is ever resolved and there is no moment when it is not yet.
var (
	gateway4 = netip.MustParseAddr("169.254.1.1")
	gateway6 = netip.MustParseAddr("fe80::1")
)

// end is one end of a link.
type end struct {
	ns   netns.NsHandle
	name string // of the interface
}

// link is a pair of ends and the addresses of the far one.
type link struct {
	near, far end
	id        uint16 // makes hardware addresses; unique in a lab
	addrs     []netip.Addr
	source    []netip.Addr // addresses that the near end's host sends from; may be empty
}

func hardware(id uint16, far byte) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x53, 0x50, far, byte(id >> 8), byte(id)}
}

// connect makes the link and its routes in both directions.
func (l link) connect() error {
	near, err := netlink.NewHandleAt(l.near.ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	defer near.Close()
	far, err := netlink.NewHandleAt(l.far.ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	defer far.Close()
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: l.near.name, HardwareAddr: hardware(l.id, 0)},
		PeerName:  l.far.name, PeerHardwareAddr: hardware(l.id, 1), PeerNamespace: netlink.NsFd(l.far.ns),
	}
	if err := near.LinkAdd(pair); err != nil {
		return fmt.Errorf("creating link %q: %w", l.near.name, err)
	}
	if err := l.setUpFar(far); err != nil {
		return fmt.Errorf("configuring %q: %w", l.far.name, err)
	}
	if err := l.setUpNear(near); err != nil {
		return fmt.Errorf("configuring %q: %w", l.near.name, err)
	}
	return nil
}

func (l link) setUpFar(h *netlink.Handle) error {
	dev, err := up(h, l.far.name)
	if err != nil {
		return err
	}
	for _, a := range l.addrs {
		if err := h.AddrAdd(dev, &netlink.Addr{IPNet: hostNet(a), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("adding address %s: %w", a, err)
		}
	}
	for _, gateway := range []netip.Addr{gateway4, gateway6} {
		source := first(l.addrs, gateway.Is6())
		if !source.IsValid() {
			continue
		}
		if err := neighbour(h, dev, gateway, hardware(l.id, 0)); err != nil {
			return err
		}
		route := &netlink.Route{LinkIndex: dev.Attrs().Index, Gw: gateway.AsSlice(), Src: source.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
		if err := h.RouteReplace(route); err != nil {
			return fmt.Errorf("adding the default route by %s: %w", gateway, err)
		}
	}
	return nil
}

func (l link) setUpNear(h *netlink.Handle) error {
	dev, err := up(h, l.near.name)
	if err != nil {
		return err
	}
	for _, a := range l.addrs {
		if err := neighbour(h, dev, a, hardware(l.id, 1)); err != nil {
			return err
		}
		route := &netlink.Route{LinkIndex: dev.Attrs().Index, Dst: hostNet(a), Scope: netlink.SCOPE_LINK}
		if source := first(l.source, a.Is6()); source.IsValid() {
			route.Src = source.AsSlice()
		}
		if err := h.RouteReplace(route); err != nil {
			return fmt.Errorf("adding the route to %s: %w", a, err)
		}
	}
	return nil
}

func up(h *netlink.Handle, name string) (netlink.Link, error) {
	dev, err := h.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("finding interface %q: %w", name, err)
	}
	if err := h.LinkSetUp(dev); err != nil {
		return nil, fmt.Errorf("setting interface %q up: %w", name, err)
	}
	return dev, nil
}

func neighbour(h *netlink.Handle, dev netlink.Link, a netip.Addr, mac net.HardwareAddr) error {
	n := &netlink.Neigh{LinkIndex: dev.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: mac}
	if err := h.NeighSet(n); err != nil {
		return fmt.Errorf("adding neighbour %s: %w", a, err)
	}
	return nil
}

func hostNet(a netip.Addr) *net.IPNet { return ipNet(netip.PrefixFrom(a, a.BitLen())) }

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// routeVia sends what goes to a prefix by way of a node's address.
func routeVia(ns netns.NsHandle, device string, to netip.Prefix, via netip.Addr) error {
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	defer h.Close()
	dev, err := h.LinkByName(device)
	if err != nil {
		return fmt.Errorf("finding interface %q: %w", device, err)
	}
	route := &netlink.Route{LinkIndex: dev.Attrs().Index, Dst: ipNet(to.Masked()), Gw: via.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
	if err := h.RouteReplace(route); err != nil {
		return fmt.Errorf("adding the route to %s by %s: %w", to, via, err)
	}
	return nil
}

// setUpHost makes a fresh namespace a host, before it has links.
func setUpHost(ns netns.NsHandle, v6, forwards bool) error {
	return within(ns, func() error {
		settings := map[string]string{
			"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
			"ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0",
			"ipv4/ip_forward": "0",
		}
		if forwards {
			settings["ipv4/ip_forward"] = "1"
		}
		if v6 {
			settings["ipv6/conf/all/disable_ipv6"], settings["ipv6/conf/default/disable_ipv6"] = "0", "0"
			settings["ipv6/conf/default/accept_dad"], settings["ipv6/conf/default/accept_ra"] = "0", "0"
			settings["ipv6/conf/all/forwarding"] = settings["ipv4/ip_forward"]
		}
		for name, value := range settings {
			if err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0o644); err != nil {
				return fmt.Errorf("setting net/%s to %s: %w", name, value, err)
			}
		}
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("opening netlink: %w", err)
		}
		defer h.Close()
		_, err = up(h, "lo")
		return err
	})
}
