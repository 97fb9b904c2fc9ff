package nodeaddrs

import (
	"context"
	"net"
	"net/netip"
)

// sourceTowards returns the address that this machine would send from to reach
// another; invalid if it has no way there. Nothing is sent: connecting a UDP
// socket only asks the routing table.
func sourceTowards(network, destination string) netip.Addr {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), network, destination)
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}
	}
	return local.AddrPort().Addr().Unmap()
}

// sources asks for the ways to documentation addresses (RFC 5737, RFC 3849):
// they follow the default route.
func sources(m *machine) {
	m.source4 = sourceTowards("udp4", "192.0.2.1:9")
	m.source6 = sourceTowards("udp6", "[2001:db8::1]:9")
}
