package dnsserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
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

// upstream is one server that is forwarded to.
type upstream struct {
	addr  netip.AddrPort
	label string
	took  *prometheus.HistogramVec
}

func newUpstream(addr netip.AddrPort, m *metrics) *upstream {
	return &upstream{addr: addr, label: addr.String(), took: m.upstream}
}

// observe notes how long an answer took.
func (u *upstream) observe(rcode int, took time.Duration) {
	u.took.WithLabelValues("forward", u.label, rcodeLabel(rcode)).Observe(took.Seconds())
}

// order returns the upstreams in the order to ask them.
func (f *forward) order() []*upstream {
	n := len(f.upstreams)
	first := 0
	switch f.policy {
	case Random:
		first = rand.IntN(n)
	case RoundRobin:
		first = int(f.turn.Add(1)-1) % n
	case Sequential:
	}
	if first == 0 {
		return f.upstreams
	}
	return append(append(make([]*upstream, 0, n), f.upstreams[first:]...), f.upstreams[:first]...)
}

// parseUpstreams resolves the arguments of a forward to addresses.
func parseUpstreams(to []string) ([]netip.AddrPort, error) {
	var addrs []netip.AddrPort
	for _, arg := range to {
		found, err := parseUpstream(arg)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, found...)
	}
	switch {
	case len(addrs) == 0:
		return nil, errors.New("no upstream")
	case len(addrs) > maxUpstreams:
		return nil, fmt.Errorf("%d upstreams: at most %d are allowed", len(addrs), maxUpstreams)
	}
	return addrs, nil
}

// parseUpstream resolves one argument: an address, or a file of them.
func parseUpstream(arg string) ([]netip.AddrPort, error) {
	host := strings.TrimPrefix(arg, "dns://")
	if scheme, _, ok := strings.Cut(host, "://"); ok {
		return nil, fmt.Errorf("upstream %q: transport %q: not supported", arg, scheme)
	}
	if ap, ok := parseAddr(host); ok {
		return []netip.AddrPort{ap}, nil
	}
	if host != arg || !strings.Contains(arg, "/") {
		return nil, fmt.Errorf("upstream %q: neither an IP address nor the path of a file", arg)
	}
	return upstreamsFromFile(arg)
}

// parseAddr reads an address with or without brackets and port.
func parseAddr(s string) (netip.AddrPort, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap, true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		s = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(s)
	return netip.AddrPortFrom(a, 53), err == nil
}

// upstreamsFromFile reads the name servers of a resolv.conf(5) file.
func upstreamsFromFile(path string) ([]netip.AddrPort, error) {
	conf, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading upstreams: %w", err)
	}
	var addrs []netip.AddrPort
	for _, server := range conf.Servers {
		ap, ok := parseAddr(server)
		if !ok {
			return nil, fmt.Errorf("reading upstreams: %q: nameserver %q: not an IP address", path, server)
		}
		addrs = append(addrs, ap)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("reading upstreams: %q: no nameserver", path)
	}
	return addrs, nil
}
