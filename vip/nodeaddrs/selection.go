package nodeaddrs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Selection says on which of the node's addresses node ports answer (P-22).
// The zero value is the mode's default.
type Selection struct {
	Primary bool           // on the node's own address of each family; CIDRs is then empty
	CIDRs   []netip.Prefix // on the addresses in these
}

// ParseSelection reads the words of node_port_addresses: "primary" alone, or
// any number of CIDRs; none is the mode's default.
func ParseSelection(words []string) (Selection, error) {
	if slices.Contains(words, "primary") {
		if len(words) > 1 {
			return Selection{}, errors.New(`parsing node port addresses: "primary" has to stand alone`)
		}
		return Selection{Primary: true}, nil
	}
	var s Selection
	for _, word := range words {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			return Selection{}, fmt.Errorf("parsing node port addresses: %q: want primary or a CIDR such as 192.168.0.0/16", word)
		}
		s.CIDRs = append(s.CIDRs, p.Masked())
	}
	return s, nil
}

// mode is what a dataplane mode does with node ports by default.
type mode struct {
	primary              bool // else all addresses
	loopback4, loopback6 bool // localhost node ports work (O-05)
}

// modes as in kube-proxy; a userspace proxy just listens, so it can listen on
// localhost too.
var modes = map[string]mode{
	"iptables":  {loopback4: true},
	"ipvs":      {},
	"nftables":  {primary: true},
	"userspace": {loopback4: true, loopback6: true},
}

// modeOf returns the mode's habits; an unknown one is as careful as possible.
func modeOf(name string) mode {
	if m, ok := modes[name]; ok {
		return m
	}
	return mode{primary: true}
}

// selectAddrs returns the node-port addresses of one family: from local, all
// that are on this machine, and primary, the node's own (may be invalid).
// Everywhere says that the selection has CIDRs, but none of this family, so
// that all addresses are taken (as in kube-proxy).
func (s Selection) selectAddrs(m mode, v6 bool, local []netip.Addr, primary netip.Addr) (addrs []netip.Addr, everywhere bool) {
	inFamily := func(p netip.Prefix) bool { return p.Addr().Is6() == v6 }
	if s.Primary || m.primary && len(s.CIDRs) == 0 {
		if primary.IsValid() {
			return []netip.Addr{primary}, false
		}
		return nil, false
	}
	everywhere = len(s.CIDRs) > 0 && !slices.ContainsFunc(s.CIDRs, inFamily)
	all := everywhere || len(s.CIDRs) == 0
	for _, a := range local {
		in := func(p netip.Prefix) bool { return p.Contains(a) }
		if a.Is6() == v6 && m.allows(a) && (all || slices.ContainsFunc(s.CIDRs, in)) {
			addrs = append(addrs, a)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs), everywhere
}

// allows reports whether node ports can answer on an address at all (F-04).
func (m mode) allows(a netip.Addr) bool {
	switch {
	case a.IsLinkLocalUnicast():
		return !a.Is6()
	case !a.IsLoopback():
		return true
	case a.Is6():
		return m.loopback6
	default:
		return m.loopback4
	}
}

// Everywhere reports whether node ports answer on all addresses in the mode,
// whichever come and go.
func (s Selection) Everywhere(mode string) bool {
	return !s.Primary && len(s.CIDRs) == 0 && !modeOf(mode).primary
}
