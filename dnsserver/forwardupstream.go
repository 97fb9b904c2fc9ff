package dnsserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// Policy is the order in which upstreams are asked. Those after the first are
// asked only when it fails.
type Policy uint8

const (
	// Random starts anywhere.
	Random Policy = iota
	// RoundRobin starts with each in turn.
	RoundRobin
	// Sequential starts with the first always.
	Sequential
)

// The ports of upstreams that name none (RFC 1035 4.2, RFC 7858 3.1).
const (
	plainPort = 53
	tlsPort   = 853
)

// proxyName is CoreDNS's label of whoever asks upstreams.
const proxyName = "forward"

// upstreamAddr is where an upstream is and how it is spoken to.
type upstreamAddr struct {
	addr       netip.AddrPort
	tls        bool
	serverName string // of this one alone
}

// String returns what parseTarget reads.
func (a upstreamAddr) String() string {
	if !a.tls {
		return a.addr.String()
	}
	if a.serverName == "" {
		return "tls://" + a.addr.String()
	}
	host := a.addr.Addr().String() + "%" + a.serverName
	if a.addr.Addr().Is6() {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("tls://%s:%d", host, a.addr.Port())
}

// upstream is one server that is forwarded to.
type upstream struct {
	upstreamAddr
	label string
	pool  *connPool

	took      *prometheus.HistogramVec
	dials     prometheus.Counter // sockets for single questions over UDP
	unhealthy prometheus.Counter

	fails    atomic.Int32 // checks failed, one after the other
	checking atomic.Bool
}

// newUpstream makes an upstream that is thought to be up.
func (f *forward) newUpstream(to upstreamAddr) *upstream {
	up := &upstream{upstreamAddr: to, label: to.addr.String(), took: f.metrics.upstream}
	stream := "tcp"
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", up.label) }
	if to.tls {
		stream = "tcp-tls"
		secure := &tls.Dialer{Config: f.tls.config(to)}
		dial = func(ctx context.Context) (net.Conn, error) { return secure.DialContext(ctx, "tcp", up.label) }
	}
	up.pool = &connPool{
		conf: f.conf.Pool, dial: dial,
		hits:   f.metrics.connHits.WithLabelValues(proxyName, up.label, stream),
		misses: f.metrics.connMisses.WithLabelValues(proxyName, up.label, stream),
	}
	up.dials = f.metrics.connMisses.WithLabelValues(proxyName, up.label, "udp")
	up.unhealthy = f.metrics.healthFailures.WithLabelValues(proxyName, up.label)
	return up
}

// observe notes how long an answer took.
func (u *upstream) observe(rcode int, took time.Duration) {
	u.took.WithLabelValues(proxyName, u.label, rcodeLabel(rcode)).Observe(took.Seconds())
}

// parseUpstreams resolves the arguments of a forward to servers, each once.
func parseUpstreams(to []string) ([]upstreamAddr, error) {
	var targets []upstreamAddr
	seen := map[upstreamAddr]bool{}
	for _, arg := range to {
		found, err := parseUpstream(arg)
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
// file.
func CheckUpstream(arg string) error {
	if isFile(arg) {
		return nil
	}
	_, err := parseTarget(arg)
	return err
}

// parseUpstream resolves one argument: a server, or a file of them.
func parseUpstream(arg string) ([]upstreamAddr, error) {
	if isFile(arg) {
		return upstreamsFromFile(arg)
	}
	one, err := parseTarget(arg)
	return []upstreamAddr{one}, err
}

// parseTarget reads "[dns://|tls://]ADDRESS[%SERVERNAME][:PORT]".
func parseTarget(arg string) (upstreamAddr, error) {
	transport, rest := "dns", arg
	if scheme, after, found := strings.Cut(arg, "://"); found {
		transport, rest = strings.ToLower(scheme), after
	}
	to, port := upstreamAddr{}, uint16(plainPort)
	switch transport {
	case "dns":
	case "tls":
		to.tls, port = true, tlsPort
		rest, to.serverName = splitServerName(rest)
	default:
		return to, fmt.Errorf("upstream %q: transport %q: must be dns or tls", arg, transport)
	}
	addr, ok := parseAddr(rest, port)
	if !ok {
		return to, fmt.Errorf("upstream %q: must be an IP address with or without a port, or the path of a resolv.conf", arg)
	}
	to.addr = addr
	return to, nil
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
