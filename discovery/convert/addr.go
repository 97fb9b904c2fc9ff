package convert

import (
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// parseAddr reads an address as leniently as API servers once did (leading
// zeros in IPv4 octets, IPv4-mapped IPv6) and returns it canonical (P-09).
// Blanks and zones make it unusable.
func parseAddr(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		a, err = netip.ParseAddr(withoutLeadingZeros(s))
	}
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// withoutLeadingZeros rewrites the dotted part of an address: "010.0.0.01" is
// decimal 10.0.0.1 for Kubernetes, never octal.
func withoutLeadingZeros(s string) string {
	colon := strings.LastIndexByte(s, ':') + 1
	octets := strings.Split(s[colon:], ".")
	if len(octets) != 4 {
		return s
	}
	for i, o := range octets {
		if trimmed := strings.TrimLeft(o, "0"); trimmed != "" {
			octets[i] = trimmed
		} else if o != "" {
			octets[i] = "0"
		}
	}
	return s[:colon] + strings.Join(octets, ".")
}

// parsePrefix reads a CIDR as leniently as [parseAddr] does an address; blanks
// around it are ignored (P-18) and bits beyond its length cleared.
func parsePrefix(s string) (netip.Prefix, bool) {
	text, length, found := strings.Cut(strings.TrimSpace(s), "/")
	if !found || len(length) > 3 {
		return netip.Prefix{}, false
	}
	bits, err := strconv.ParseUint(length, 10, 8)
	if err != nil {
		return netip.Prefix{}, false
	}
	a, ok := parseAddr(text)
	if ok && a.Is4() && strings.Contains(text, ":") {
		if bits < 96 {
			return netip.Prefix{}, false
		}
		bits -= 96
	}
	p, err := a.Prefix(int(bits))
	return p, ok && err == nil
}

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// notForTraffic says why an address can't be where traffic of other machines
// goes, or nothing if it can.
func notForTraffic(a netip.Addr, allowLoopback bool) string {
	switch {
	case a.IsUnspecified():
		return "may not be unspecified (0.0.0.0 or ::)"
	case a.IsLoopback() && !allowLoopback:
		return "may not be in the loopback range (127.0.0.0/8 or ::1)"
	case a.IsLinkLocalUnicast():
		return "may not be in the link-local range (169.254.0.0/16 or fe80::/10)"
	case a.IsMulticast():
		return "may not be a multicast address (224.0.0.0/4 or ff00::/8)"
	default:
		return ""
	}
}
