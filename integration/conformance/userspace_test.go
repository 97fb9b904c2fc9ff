package conformance_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"signpost/integration/conformance"
	"signpost/vip"
	"signpost/vip/userspace"
)

func TestUserspace(t *testing.T) {
	conformance.Run(t, conformance.Suite{
		New: func(host conformance.Host) vip.Backend {
			return userspace.New(userspace.Config{Dial: func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
				return host.Lab.Dial(ctx, host.Name, network, to.String())
			}})
		},
		Steps:  6, // of random packets the package has a test of its own
		Limits: conformance.Limits{LosesSource: true, NoSCTP: true, SilentUDP: true, Captures: true, NoInterfaces: true, InProcess: true, HostPorts: true},
		Breakages: []conformance.Breakage{
			{Name: "X02 ip addr del VIP", Do: func() error { return flushRoutes(1) }},
			{Name: "X02 ip route flush proto 83", Do: func() error { return flushRoutes(100) }},
		},
	})
}

// flushRoutes removes some of the routes that make addresses local.
func flushRoutes(most int) error {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{
		Table: unix.RT_TABLE_LOCAL, Protocol: userspace.RouteProtocol,
	}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return err
	}
	if len(routes) == 0 {
		return errors.New("flushing routes: there is none")
	}
	for _, r := range routes[:min(most, len(routes))] {
		if err := netlink.RouteDel(&r); err != nil {
			return err
		}
	}
	return nil
}
