package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"signpost/cmd/signpost/corefile"
)

// interfaceAddrs returns the addresses of an interface; a seam for tests.
type interfaceAddrs func(name string) ([]netip.Addr, error)

// systemAddrs asks the machine.
func systemAddrs(name string) ([]netip.Addr, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("%q: must be an IP address or an interface of this machine", name)
	}
	networks, err := device.Addrs()
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of %q: %w", name, err)
	}
	var addrs []netip.Addr
	for _, n := range networks {
		network, err := netip.ParsePrefix(n.String())
		if err != nil {
			continue // not an IP address
		}
		addr := network.Addr().Unmap()
		if addr.Is6() && addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(name)
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// bindAddrs returns the addresses that a block binds to; "" is all of them.
func bindAddrs(s *corefile.Server, lookup interfaceAddrs) ([]string, error) {
	if len(s.Bind) == 0 {
		return []string{""}, nil
	}
	except, err := resolveBind(s.BindExcept, lookup)
	if err != nil {
		return nil, err
	}
	bound, err := resolveBind(s.Bind, lookup)
	if err != nil {
		return nil, err
	}
	var hosts []string
	for _, a := range bound {
		if text := a.String(); !slices.Contains(except, a) && !slices.Contains(hosts, text) {
			hosts = append(hosts, text)
		}
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("%q has no address left", s.Bind)
	}
	return hosts, nil
}

func resolveBind(words []string, lookup interfaceAddrs) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, word := range words {
		if addr, err := netip.ParseAddr(word); err == nil {
			addrs = append(addrs, addr)
			continue
		}
		found, err := lookup(word)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, found...)
	}
	return addrs, nil
}

// listenAddr joins a host ("": all) and a port.
func listenAddr(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// listening is the set of addresses that blocks listen on.
func (z *zones) listening() map[string]bool {
	all := map[string]bool{}
	for i := range z.blocks {
		for _, addr := range z.blocks[i].Listen {
			all[addr] = true
		}
	}
	return all
}

// tryListen opens an address over UDP and TCP and closes it again.
func tryListen(ctx context.Context, addr string) error {
	var config net.ListenConfig
	packets, err := config.ListenPacket(ctx, "udp", addr)
	if err != nil {
		return fmt.Errorf("trying a new address: %w", err)
	}
	stream, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return errors.Join(err, packets.Close())
	}
	return errors.Join(packets.Close(), stream.Close())
}
