package nodeaddrs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func hostSystem() system { return system{list: listAddresses, watch: watchAddresses} }

// listAddresses reads all interface addresses in two dumps. A dump that was
// interrupted by a change is an error: half a list is worse than an old one.
func listAddresses() (machine, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return machine{}, fmt.Errorf("listing interfaces: %w", err)
	}
	names := make(map[int]string, len(links))
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return machine{}, fmt.Errorf("listing addresses: %w", err)
	}
	var m machine
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok || a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
			continue // nobody can use it (yet)
		}
		m.addrs = append(m.addrs, address{addr: ip.Unmap(), iface: names[a.LinkIndex]})
	}
	sources(&m)
	return m, nil
}

// watchAddresses calls changed when an address comes or goes, until the
// context ends or the subscription breaks.
func watchAddresses(ctx context.Context, changed func()) error {
	updates, done := make(chan netlink.AddrUpdate, 64), make(chan struct{})
	var mu sync.Mutex
	var broken error
	options := netlink.AddrSubscribeOptions{ErrorCallback: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		broken = err
	}}
	if err := netlink.AddrSubscribeWithOptions(updates, done, options); err != nil {
		return fmt.Errorf("subscribing to addresses: %w", err)
	}
	// The library's reader ends when its socket is closed, and closes updates;
	// it must not be left waiting to deliver one.
	defer func() {
		close(done)
		for range updates {
		}
	}()
	changed() // what came before the subscription was not told
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-updates:
			if !open {
				mu.Lock()
				defer mu.Unlock()
				return errors.Join(errors.New("watching addresses: the subscription ended"), broken)
			}
			changed()
		}
	}
}
