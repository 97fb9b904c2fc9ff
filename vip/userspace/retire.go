package userspace

import (
	"context"
	"errors"
	"net/netip"
)

// Retire makes way for another backend that has taken over: no listener stays,
// UDP sessions end, established TCP connections live on. Their addresses stay
// local as long as they need them, all others are given back. The backend may
// be applied to again, and has to be closed in the end, which ends the
// connections.
func (b *Backend) Retire(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopServers()
	b.looked = false
	return b.addrs.narrow()
}

// narrow gives back the service ranges, and what nobody uses.
func (a *addresses) narrow() error {
	var failed []error
	for _, addr := range a.leaveRanges() {
		failed = append(failed, a.ensure(addr))
	}
	return errors.Join(append(failed, a.sweep())...)
}

// leaveRanges forgets the service ranges and returns the addresses in use.
func (a *addresses) leaveRanges() []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	var kept []netip.Prefix
	for _, p := range a.nets {
		if _, ours := a.own[p]; !ours {
			kept = append(kept, p)
		}
	}
	a.nets, a.ranges = kept, nil
	used := make([]netip.Addr, 0, len(a.users))
	for addr := range a.users {
		used = append(used, addr)
	}
	return used
}
