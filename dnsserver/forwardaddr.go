package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// The ports of upstreams that name none (RFC 1035 4.2, RFC 7858 3.1, RFC 8484).
const (
	plainPort = 53
	tlsPort   = 853
	httpsPort = 443
)

// upstreamAddr is where an upstream is and how it is spoken to.
type upstreamAddr struct {
	addr       netip.AddrPort
	transport  Transport
	serverName string // of this one alone
	host       string // the name that led to the address, without a final dot
}

// String returns what parseTarget reads, with the address in the place of a
// name.
func (a upstreamAddr) String() string {
	if a.transport == PlainDNS {
		return a.addr.String()
	}
	if a.serverName == "" {
		return a.transport.String() + "://" + a.addr.String()
	}
	host := a.addr.Addr().String() + "%" + a.serverName
	if a.addr.Addr().Is6() {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s://%s:%d", a.transport, host, a.addr.Port())
}

// parseUpstreams resolves the arguments of a forward to servers, each once.
// Names are looked up by resolve.
func parseUpstreams(ctx context.Context, to []string, resolve hostResolver) ([]upstreamAddr, error) {
	var targets []upstreamAddr
	seen := map[upstreamAddr]bool{}
	for _, arg := range to {
		found, err := parseUpstream(ctx, arg, resolve)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			if !seen[one] {
				seen[one] = true
				targets = append(targets, one)
			}
		}
	}
	switch {
	case len(targets) == 0:
		return nil, errors.New("no upstream")
	case len(targets) > maxUpstreams:
		return nil, fmt.Errorf("%d upstreams: at most %d are allowed", len(targets), maxUpstreams)
	}
	return targets, nil
}

// CheckUpstream reports what is wrong with an argument of forward. It opens no
// file and looks up no name.
func CheckUpstream(arg string) error {
	if isFile(arg) {
		return nil
	}
	_, err := parseTarget(arg)
	return err
}

// parseUpstream resolves one argument: a server, or a file of them.
func parseUpstream(ctx context.Context, arg string, resolve hostResolver) ([]upstreamAddr, error) {
	if isFile(arg) {
		return upstreamsFromFile(arg)
	}
	one, err := parseTarget(arg)
	if err != nil || one.host == "" {
		return []upstreamAddr{one}, err
	}
	addrs, err := resolve(ctx, one.host)
	if err != nil {
		return nil, fmt.Errorf("looking up upstream %q: %w", arg, err)
	}
	targets := make([]upstreamAddr, len(addrs))
	for i, a := range addrs {
		targets[i] = one
		targets[i].addr = netip.AddrPortFrom(a, one.addr.Port())
	}
	return targets, nil
}

// parseTarget reads "[dns://|tls://|https://]HOST[%SERVERNAME][:PORT]". If HOST
// is a name, the address has a port and nothing else.
func parseTarget(arg string) (upstreamAddr, error) {
	scheme, rest, found := strings.Cut(arg, "://")
	if !found {
		scheme, rest = "dns", arg
	}
	to, port := upstreamAddr{}, uint16(plainPort)
	switch strings.ToLower(scheme) {
	case "dns":
	case "tls":
		to.transport, port = DoT, tlsPort
	case "https":
		to.transport, port = DoH, httpsPort
	default:
		return to, fmt.Errorf("upstream %q: transport %q: must be dns, tls or https", arg, scheme)
	}
	if to.transport != PlainDNS {
		rest, to.serverName = splitServerName(rest)
	}
	addr, ok := parseAddr(rest, port)
	if !ok {
		to.host, addr, ok = parseHost(rest, port)
	}
	if !ok {
		return to, fmt.Errorf("upstream %q: must be an IP address or a host name, with or without a port, or the path of a resolv.conf", arg)
	}
	to.addr = addr
	return to, nil
}

// parseHost reads a host name with or without a port. What ends in a number is
// an address that went wrong (RFC 3696 2).
func parseHost(s string, port uint16) (host string, addr netip.AddrPort, ok bool) {
	host, number, found := strings.Cut(s, ":")
	if found {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return "", addr, false
		}
		port = uint16(n)
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxNameOctets-2 {
		return "", addr, false
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if last = label; !isHostLabel(label) {
			return "", addr, false
		}
	}
	if _, err := strconv.ParseUint(last, 10, 64); err == nil {
		return "", addr, false
	}
	return host, netip.AddrPortFrom(netip.Addr{}, port), true
}

// splitServerName takes "%NAME" out of "ADDRESS%NAME[:PORT]", where an IPv6
// address with a port is in brackets, with the name or without.
func splitServerName(s string) (rest, name string) {
	addr, name, found := strings.Cut(s, "%")
	if !found {
		return s, ""
	}
	name, port, hasPort := strings.Cut(name, ":")
	if bare, inside := strings.CutSuffix(name, "]"); inside {
		addr, name = addr+"]", bare
	}
	if hasPort {
		addr += ":" + port
	}
	return addr, name
}

// parseAddr reads an address with or without brackets and port.
func parseAddr(s string, port uint16) (netip.AddrPort, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap, true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		s = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(s)
	return netip.AddrPortFrom(a, port), err == nil
}

// upstreamsFromFile reads the name servers of a resolv.conf(5) file.
func upstreamsFromFile(path string) ([]upstreamAddr, error) {
	conf, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading upstreams: %w", err)
	}
	var targets []upstreamAddr
	for _, server := range conf.Servers {
		addr, ok := parseAddr(server, plainPort)
		if !ok {
			return nil, fmt.Errorf("reading upstreams: %q: nameserver %q: not an IP address", path, server)
		}
		targets = append(targets, upstreamAddr{addr: addr})
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("reading upstreams: %q: no nameserver", path)
	}
	return targets, nil
}
