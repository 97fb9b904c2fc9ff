//go:build !linux

package nodeaddrs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

func hostSystem() system {
	return system{list: listAddresses, watch: func(context.Context, func()) error {
		return errors.New("watching addresses: not supported on this system")
	}}
}

func listAddresses() (machine, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return machine{}, fmt.Errorf("listing interfaces: %w", err)
	}
	var m machine
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			return machine{}, fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				m.addrs = append(m.addrs, address{addr: p.Addr().WithZone("").Unmap(), iface: i.Name})
			}
		}
	}
	sources(&m)
	return m, nil
}
