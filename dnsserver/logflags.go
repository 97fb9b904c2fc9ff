package dnsserver

import (
	"net/netip"
	"strings"
)

// flagNames writes header flags as dig and CoreDNS do: "qr,aa,rd".
func flagNames(flags uint16) string {
	var names []string
	for _, f := range [...]struct {
		bit  uint16
		name string
	}{
		{flagQR, "qr"}, {flagAA, "aa"}, {flagTC, "tc"}, {flagRD, "rd"}, {flagRA, "ra"}, {flagAD, "ad"}, {flagCD, "cd"},
	} {
		if flags&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ",")
}

// logAddr writes an address for "{remote}:{port}": IPv6 in brackets.
func logAddr(a netip.Addr) string {
	a = a.Unmap()
	if a.Is6() {
		return "[" + a.String() + "]"
	}
	return a.String()
}
