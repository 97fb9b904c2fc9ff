package vip

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"signpost/discovery"
)

// Frontend is the identity of a virtual server: what a client connects to.
// A node port has the unspecified address of its family ([NodePortFrontend]):
// it answers on every address of [Node].NodePortAddrs.
type Frontend struct {
	Addr     netip.Addr
	Port     uint16
	Protocol discovery.Protocol
}

// NodePortFrontend is the frontend of a node port in one address family.
func NodePortFrontend(v6 bool, port uint16, protocol discovery.Protocol) Frontend {
	addr := netip.IPv4Unspecified()
	if v6 {
		addr = netip.IPv6Unspecified()
	}
	return Frontend{Addr: addr, Port: port, Protocol: protocol}
}

// IsNodePort reports whether the frontend is a node port.
func (f Frontend) IsNodePort() bool { return f.Addr.IsUnspecified() }

// Is6 reports whether the frontend belongs to the IPv6 plane.
func (f Frontend) Is6() bool { return f.Addr.Is6() }

// String returns "10.96.0.1:443/TCP"; a node port is "0.0.0.0:30008/TCP" or "[::]:30008/TCP".
func (f Frontend) String() string {
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(f.Addr, f.Port), f.Protocol)
}

// Compare orders frontends by address, port and protocol.
func (f Frontend) Compare(o Frontend) int {
	return cmp.Or(f.Addr.Compare(o.Addr), cmp.Compare(f.Port, o.Port), cmp.Compare(f.Protocol, o.Protocol))
}

// ParseFrontend reads what [Frontend.String] writes. Without "/PROTOCOL" it is TCP.
func ParseFrontend(text string) (Frontend, error) {
	hostPort, name, _ := strings.Cut(text, "/")
	protocol, err := discovery.ParseProtocol(name)
	if err != nil {
		return Frontend{}, fmt.Errorf("parsing frontend %q: %w", text, err)
	}
	ap, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return Frontend{}, fmt.Errorf("parsing frontend %q: %w", text, err)
	}
	return Frontend{Addr: ap.Addr().Unmap(), Port: ap.Port(), Protocol: protocol}, nil
}
