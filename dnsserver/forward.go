package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// ForwardConfig sends the queries of a domain to other servers (F1).
type ForwardConfig struct {
	// From is the domain; "." is everything.
	From string
	// To are the upstreams, at most 15: an IP address with or without a port,
	// "dns://" and an address, or the path of a resolv.conf(5) file, which is
	// read when the configuration is built.
	To []string
	// Except are domains below From that the next handler gets instead.
	Except []string
	// Policy says which upstream is asked first; default random.
	Policy Policy
	// ForceTCP asks over TCP always, PreferUDP over UDP even for TCP clients.
	ForceTCP, PreferUDP bool
	// MaxConcurrent limits the queries that wait for upstreams; those beyond are
	// REFUSED. Default: three quarters of the server's MaxQueries, so that slow
	// upstreams never use up what cluster names need.
	MaxConcurrent int
	// Timeout of one attempt, default 2 s.
	Timeout time.Duration
	// Failover lists rcodes that make it try the next upstream.
	Failover []int
}

// Limits of forwarding, those of CoreDNS.
const (
	maxUpstreams        = 15
	defaultReadTimeout  = 2 * time.Second
	forwardTimeout      = 5 * time.Second // for all attempts of one query
	attemptsPerUpstream = 3
)

// forward is one forward of a block. It is immutable but for its counters.
type forward struct {
	from      string
	except    []string
	upstreams []*upstream
	policy    Policy
	turn      atomic.Uint32 // for round robin

	forceTCP, preferUDP bool
	failover            []int
	timeout             time.Duration
	waiting             atomic.Int64
	maxWaiting          int64
	exchange            exchanger
	metrics             *metrics
}

// newForward checks the configuration and finds the upstreams.
func newForward(fc ForwardConfig, cfg Config, m *metrics) (*forward, error) {
	fail := func(err error) (*forward, error) { return nil, fmt.Errorf("forward %q: %w", fc.From, err) }
	for _, zone := range append([]string{fc.From}, fc.Except...) {
		if _, ok := dns.IsDomainName(zone); !ok || zone == "" {
			return fail(fmt.Errorf("zone %q: not a domain name", zone))
		}
	}
	addrs, err := parseUpstreams(fc.To)
	if err != nil {
		return fail(err)
	}
	if fc.Policy > Sequential {
		return fail(fmt.Errorf("policy %d: unknown", fc.Policy))
	}
	if fc.MaxConcurrent < 0 || fc.Timeout < 0 {
		return fail(errors.New("limits must not be negative"))
	}
	f := &forward{
		from: dns.CanonicalName(fc.From), policy: fc.Policy,
		forceTCP: fc.ForceTCP, preferUDP: fc.PreferUDP, failover: fc.Failover,
		timeout:    orDefault(fc.Timeout, defaultReadTimeout),
		maxWaiting: int64(orDefault(fc.MaxConcurrent, max(1, cfg.MaxQueries*3/4))),
		exchange:   exchanger{udpSize: cfg.MaxUDPSize, forged: m.dropChildren[dropForged]}, metrics: m,
	}
	for _, zone := range fc.Except {
		f.except = append(f.except, dns.CanonicalName(zone))
	}
	for _, addr := range addrs {
		f.upstreams = append(f.upstreams, newUpstream(addr, m))
	}
	return f, nil
}

// wrap is the forward's middleware.
func (f *forward) wrap(next dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if !f.takes(r.Question[0].Name) {
			next.ServeDNS(w, r)
			return
		}
		f.serve(w, r)
	})
}

// takes reports whether the name is forwarded here.
func (f *forward) takes(name string) bool {
	return dns.IsSubDomain(f.from, name) && (len(f.except) == 0 || !within(name, f.except))
}

// serve asks upstream and passes the answer on.
func (f *forward) serve(w dns.ResponseWriter, r *dns.Msg) {
	if f.waiting.Add(1) > f.maxWaiting {
		f.waiting.Add(-1)
		f.metrics.rejects.Inc()
		refuse(w, r)
		return
	}
	reply, err := f.ask(queryContext(w), r, f.overTCP(w))
	f.waiting.Add(-1)
	if err != nil {
		failQuery(w, r, err)
		return
	}
	_ = w.WriteMsg(reply) // the query has recorded what went wrong
}

// overTCP says how to ask first: as the client did, unless configured.
func (f *forward) overTCP(w dns.ResponseWriter) bool {
	if f.forceTCP || f.preferUDP {
		return f.forceTCP
	}
	q := queryOf(w)
	return q != nil && q.proto == protoTCP && !q.internal
}

// ask tries upstreams until one answers or time is up.
func (f *forward) ask(ctx context.Context, r *dns.Msg, tcp bool) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	order := f.order()
	var last *dns.Msg
	var errs []error
	for i := range len(order) * attemptsPerUpstream {
		up := order[i%len(order)]
		reply, err := f.attempt(ctx, up, r, tcp)
		switch {
		case err == nil && !slices.Contains(f.failover, reply.Rcode):
			return reply, nil
		case err == nil:
			last = reply
			if i >= len(order)-1 { // everyone was asked
				return last, nil
			}
		case len(errs) < len(order): // later rounds say the same again
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, errors.Join(errs...)
}

// attempt asks one upstream once, within the timeout of an attempt.
func (f *forward) attempt(ctx context.Context, up *upstream, r *dns.Msg, tcp bool) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	start := time.Now()
	reply, err := f.exchange.do(ctx, up.addr, r, tcp)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", up.addr, err)
	}
	up.observe(reply.Rcode, time.Since(start))
	return reply, nil
}
