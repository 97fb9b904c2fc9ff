package allocator

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// pool is the usable addresses of one prefix.
type pool struct {
	prefix netip.Prefix
	first  netip.Addr // number 0 of the space
	space  *space
}

// largest is the most addresses that a pool counts: a longer range (IPv6
// prefixes shorter than /66) is used from its beginning on.
const largest = 1 << 62

// newServicePool makes the pool of a service CIDR: IPv4 from network+1 to
// broadcast-1, IPv6 from network+1 to the last, with the static band of
// A-02 and the first address kept for the API server's own service.
func newServicePool(p netip.Prefix, random func(uint64) uint64) (*pool, error) {
	total := rangeSize(p)
	usable := total - 1
	if p.Addr().Is4() {
		usable--
	}
	if total < 4 {
		return nil, fmt.Errorf("service range %q: too small, it has no usable address", p)
	}
	static := uint64(0)
	if total > 16 {
		static = clamp(total/16, 16, 256)
	}
	return &pool{prefix: p.Masked(), first: p.Masked().Addr().Next(), space: newSpace(usable, static, 1, random)}, nil
}

// newBalancerPool makes the pool of a load-balancer prefix, given out in
// order. Network and broadcast addresses are left out where there are such.
func newBalancerPool(p netip.Prefix) *pool {
	total, first := rangeSize(p), p.Masked().Addr()
	switch {
	case total > 2 && first.Is4():
		return &pool{prefix: p.Masked(), first: first.Next(), space: newSpace(total-2, 0, 0, nil)}
	case total > 2:
		return &pool{prefix: p.Masked(), first: first.Next(), space: newSpace(total-1, 0, 0, nil)}
	default:
		return &pool{prefix: p.Masked(), first: first, space: newSpace(total, 0, 0, nil)}
	}
}

func rangeSize(p netip.Prefix) uint64 {
	hostBits := p.Addr().BitLen() - p.Bits()
	if hostBits >= 62 {
		return largest
	}
	return 1 << hostBits
}

// number is the place of an address in the pool's space.
func (p *pool) number(a netip.Addr) (uint64, bool) {
	if !p.prefix.Contains(a) {
		return 0, false
	}
	// The highest 64 bits are the same unless the prefix is shorter than /64,
	// and then everything beyond the first 2^62 addresses is not counted.
	if high(a) != high(p.first) || low(a) < low(p.first) {
		return 0, false
	}
	n := low(a) - low(p.first)
	return n, n < p.space.size
}

// addr is the address at a place of the pool's space.
func (p *pool) addr(n uint64) netip.Addr {
	b := p.first.As16()
	binary.BigEndian.PutUint64(b[8:], low(p.first)+n)
	return netip.AddrFrom16(b).Unmap()
}

func high(a netip.Addr) uint64 { b := a.As16(); return binary.BigEndian.Uint64(b[:8]) }
func low(a netip.Addr) uint64  { b := a.As16(); return binary.BigEndian.Uint64(b[8:]) }

// sameFamily reports whether an address belongs to the pool's family.
func (p *pool) sameFamily(is6 bool) bool { return p.prefix.Addr().Is6() == is6 }
