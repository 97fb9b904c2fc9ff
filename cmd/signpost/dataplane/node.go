package dataplane

import (
	"fmt"
	"net"
	"net/netip"
)

// LocalAddrs returns the addresses of this machine's interfaces.
func LocalAddrs() ([]netip.Addr, error) {
	networks, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing this machine's addresses: %w", err)
	}
	addrs := make([]netip.Addr, 0, len(networks))
	for _, n := range networks {
		if network, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, network.Addr().Unmap())
		}
	}
	return addrs, nil
}
