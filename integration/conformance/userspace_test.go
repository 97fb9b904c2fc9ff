package conformance_test

import (
	"context"
	"net"
	"net/netip"
	"testing"

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
		Limits: conformance.Limits{LosesSource: true, NoSCTP: true, SilentUDP: true, Captures: true, NoInterfaces: true, InProcess: true},
	})
}
