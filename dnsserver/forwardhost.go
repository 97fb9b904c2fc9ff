package dnsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

const (
	// hostTimeout is for looking up one upstream's name by the system,
	// hostAttempt for one question to one resolver.
	hostTimeout = 5 * time.Second
	hostAttempt = 2 * time.Second
)

// hostResolver looks up the addresses of an upstream that is given by name. It
// returns at least one.
type hostResolver func(ctx context.Context, host string) ([]netip.Addr, error)

// newHostResolver returns one that asks the resolvers, or the system if there
// are none. Names are absolute: no search path applies.
func newHostResolver(resolvers []string, source netip.Addr) (hostResolver, error) {
	if len(resolvers) == 0 {
		return systemLookup, nil
	}
	addrs := make([]netip.AddrPort, len(resolvers))
	for i, r := range resolvers {
		var err error
		if addrs[i], err = ParseResolver(r); err != nil {
			return nil, err
		}
	}
	client := &dns.Client{Dialer: &net.Dialer{LocalAddr: localUDP(source), Timeout: hostAttempt}, Timeout: hostAttempt}
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		var errs []error
		for _, to := range addrs {
			found, err := lookupAt(ctx, client, to, host)
			if len(found) > 0 {
				return found, nil
			}
			errs = append(errs, cmp.Or(err, errNoAddress))
		}
		return nil, errors.Join(errs...)
	}, nil
}

// ParseResolver reads the address of a resolver, port 53 unless it says so.
func ParseResolver(s string) (netip.AddrPort, error) {
	addr, ok := parseAddr(s, plainPort)
	if !ok {
		return addr, fmt.Errorf("resolver %q: must be an IP address with or without a port", s)
	}
	return addr, nil
}

var errNoAddress = errors.New("no address")

// systemLookup asks as every other program on this machine does.
func systemLookup(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", dns.Fqdn(host))
	if err != nil {
		return nil, err //nolint:wrapcheck // names the operation and the host
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	if len(addrs) == 0 {
		return nil, errNoAddress
	}
	return addrs, nil
}

// lookupAt asks one resolver for both families. The addresses of one are
// enough; who doesn't reply to the first question isn't asked another.
func lookupAt(ctx context.Context, client *dns.Client, to netip.AddrPort, host string) ([]netip.Addr, error) {
	var found []netip.Addr
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		reply, _, err := client.ExchangeContext(ctx, new(dns.Msg).SetQuestion(dns.Fqdn(host), qtype), to.String())
		if err != nil {
			return found, fmt.Errorf("asking %s: %w", to, err)
		}
		for _, rr := range reply.Answer {
			if a, ok := addressOf(rr); ok {
				found = append(found, a)
			}
		}
	}
	return found, nil
}

// addressOf returns the address of an A or AAAA record.
func addressOf(rr dns.RR) (netip.Addr, bool) {
	switch v := rr.(type) {
	case *dns.A:
		a, ok := netip.AddrFromSlice(v.A)
		return a.Unmap(), ok
	case *dns.AAAA:
		return netip.AddrFromSlice(v.AAAA)
	}
	return netip.Addr{}, false
}
