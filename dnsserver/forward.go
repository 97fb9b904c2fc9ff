package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// ForwardConfig sends the queries of a domain to other servers (F1).
type ForwardConfig struct {
	// From is the domain; "." is everything.
	From string
	// To are the upstreams, at most 15: an IP address or a host name with or
	// without a port, "dns://", "tls://" or "https://" in front of one, or the
	// path of a resolv.conf(5) file, which is read again when it changes.
	// "tls://ADDRESS%NAME" names the server of that address alone.
	To []string
	// Resolvers look up the host names in To, once when the configuration is
	// built: IP addresses with or without a port, asked in turn until one has
	// an answer. Default: the system's.
	Resolvers []string
	// Source is the address to ask from; default: what the kernel thinks best.
	Source netip.Addr
	// Except are domains below From that the next handler gets instead.
	Except []string
	// Policy says which upstream is asked first; default random.
	Policy Policy
	// ForceTCP asks over TCP always, PreferUDP over UDP even for TCP clients.
	// Neither concerns tls and https upstreams.
	ForceTCP, PreferUDP bool
	// HTTPGet asks https upstreams by GET, which caches on the way may answer,
	// and not by POST.
	HTTPGet bool
	// TLS is for tls and https upstreams.
	TLS ForwardTLS
	// MaxConcurrent limits the queries that wait for upstreams; those beyond are
	// REFUSED. Default: three quarters of the server's MaxQueries, so that slow
	// upstreams never use up what cluster names need.
	MaxConcurrent int
	// MaxAttempts limits the attempts for one query; default twice the number of
	// upstreams, negative: as many as time allows.
	MaxAttempts int
	// Timeout of one attempt, default 2 s.
	Timeout time.Duration
	// Pool is for connections over TCP and TLS.
	Pool PoolConfig
	// Health says when an upstream is passed over.
	Health HealthConfig
	// Failover lists rcodes that make it try the next upstream.
	Failover []int
	// Next lists rcodes, and NextOnNodata adds NODATA, with which the next
	// forward that takes the name is tried.
	Next         []int
	NextOnNodata bool
}

// PoolConfig says how long connections to upstreams are kept for reuse.
type PoolConfig struct {
	// Expire is how long one may be idle, default 10 s; MaxAge how old it may
	// become, 0: as old as it likes.
	Expire, MaxAge time.Duration
	// MaxIdle is how many idle ones are kept for each upstream; default 64.
	MaxIdle int
}

// HealthConfig is how upstreams that failed a query are watched.
type HealthConfig struct {
	// MaxFails is how many checks must fail one after the other before an
	// upstream counts as down; default 2, negative: no checks, never down.
	MaxFails int
	// Interval is the time between two checks of one that fails; default 0.5 s.
	Interval time.Duration
	// NoRecursion asks without RD. Domain is asked for its NS records; default ".".
	NoRecursion bool
	Domain      string
	// FailFast answers SERVFAIL when all upstreams are down. Else one of them is
	// tried all the same: perhaps it is the checks that are wrong.
	FailFast bool
}

// Limits of forwarding, those of CoreDNS.
const (
	maxUpstreams        = 15
	defaultReadTimeout  = 2 * time.Second
	forwardTimeout      = 5 * time.Second // for all attempts of one query
	attemptsPerUpstream = 2
	defaultExpire       = 10 * time.Second
	defaultMaxIdle      = 64
	defaultMaxFails     = 2
	defaultHealthPause  = 500 * time.Millisecond
)

// withDefaults fills zero fields in.
func (fc ForwardConfig) withDefaults(cfg Config) ForwardConfig {
	fc.Timeout = orDefault(fc.Timeout, defaultReadTimeout)
	fc.MaxConcurrent = orDefault(fc.MaxConcurrent, max(1, cfg.MaxQueries*3/4))
	fc.Pool.Expire = orDefault(fc.Pool.Expire, defaultExpire)
	fc.Pool.MaxIdle = orDefault(fc.Pool.MaxIdle, defaultMaxIdle)
	fc.Health.MaxFails = orDefault(fc.Health.MaxFails, defaultMaxFails)
	fc.Health.Interval = orDefault(fc.Health.Interval, defaultHealthPause)
	fc.Health.Domain = orDefault(fc.Health.Domain, ".")
	return fc
}

// validate checks everything but the upstreams.
func (fc *ForwardConfig) validate() error {
	for _, zone := range append([]string{fc.From, fc.Health.Domain}, fc.Except...) {
		if _, ok := dns.IsDomainName(zone); !ok || zone == "" {
			return fmt.Errorf("zone %q: not a domain name", zone)
		}
	}
	if fc.Policy > Sequential {
		return fmt.Errorf("policy %d: unknown", fc.Policy)
	}
	if fc.MaxConcurrent < 0 || fc.Timeout < 0 || fc.Health.Interval < 0 ||
		fc.Pool.Expire < 0 || fc.Pool.MaxAge < 0 || fc.Pool.MaxIdle < 0 {
		return errors.New("limits must not be negative")
	}
	return nil
}

// forward is one forward of a block. It is immutable but for its counters and
// the upstreams that are found in files.
type forward struct {
	conf   ForwardConfig // with defaults
	from   string
	except []string
	// rest are the forwards that come after it.
	rest []*forward

	upstreams atomic.Pointer[[]*upstream]
	turn      atomic.Uint32 // for round robin
	waiting   atomic.Int64

	exchange exchanger
	resolve  hostResolver
	tls      *tlsSettings
	metrics  *metrics
	tasks    *tasks
	log      *slog.Logger
}

// newForward checks the configuration and finds the upstreams. Nothing runs
// yet.
func newForward(fc ForwardConfig, cfg Config, m *metrics) (*forward, error) {
	fail := func(err error) (*forward, error) { return nil, fmt.Errorf("forward %q: %w", fc.From, err) }
	fc = fc.withDefaults(cfg)
	if err := fc.validate(); err != nil {
		return fail(err)
	}
	tls, err := fc.TLS.load()
	if err != nil {
		return fail(err)
	}
	f := &forward{
		conf: fc, from: dns.CanonicalName(fc.From), except: canonical(fc.Except), tls: tls, metrics: m, log: cfg.Log,
		exchange: exchanger{udpSize: cfg.MaxUDPSize, source: fc.Source, forged: m.dropChildren[dropForged], outside: m.dropChildren[dropBailiwick]},
		tasks:    newTasks(),
	}
	if f.resolve, err = newHostResolver(fc.Resolvers, fc.Source); err != nil {
		return fail(err)
	}
	targets, err := parseUpstreams(context.Background(), fc.To, f.resolve)
	if err != nil {
		return fail(err)
	}
	if err := tls.check(targets); err != nil {
		return fail(err)
	}
	f.setTargets(targets)
	return f, nil
}

// begin starts to watch files.
func (f *forward) begin() {
	if files := filesOf(f.conf.To); len(files) > 0 {
		watch := &fileWatch{files: files}
		watch.changed() // what it is now
		f.tasks.run(func(ctx context.Context) { f.follow(ctx, watch) })
	}
}

// end ends checks and watching, and lets idle connections go. Queries in
// flight go on.
func (f *forward) end() {
	f.tasks.close()
	for _, up := range *f.upstreams.Load() {
		up.close()
	}
}

// wrap is the forward's middleware.
func (f *forward) wrap(next dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if !f.takes(r.Question[0].Name) {
			next.ServeDNS(w, r)
			return
		}
		f.serve(w, r, next)
	})
}

// takes reports whether the name is forwarded here.
func (f *forward) takes(name string) bool {
	return dns.IsSubDomain(f.from, name) && !excepted(name, f.except)
}

// serve asks upstream and passes the answer on.
func (f *forward) serve(w dns.ResponseWriter, r *dns.Msg, next dns.Handler) {
	if f.waiting.Add(1) > int64(f.conf.MaxConcurrent) {
		f.waiting.Add(-1)
		f.metrics.rejects.Inc()
		refuse(w, r)
		return
	}
	reply, err := f.ask(queryContext(w), r, f.overTCP(w))
	f.waiting.Add(-1)
	switch {
	case err != nil:
		failQuery(w, r, err)
	case f.leaves(reply, r.Question[0].Name):
		next.ServeDNS(w, r)
	default:
		_ = w.WriteMsg(reply) // the query has recorded what went wrong
	}
}

// leaves reports whether a later forward may know better.
func (f *forward) leaves(reply *dns.Msg, name string) bool {
	nodata := f.conf.NextOnNodata && reply.Rcode == dns.RcodeSuccess && len(reply.Answer) == 0
	if !nodata && !slices.Contains(f.conf.Next, reply.Rcode) {
		return false
	}
	return slices.ContainsFunc(f.rest, func(other *forward) bool { return other.takes(name) })
}

// overTCP says how to ask first: as the client did, unless configured.
func (f *forward) overTCP(w dns.ResponseWriter) bool {
	if f.conf.ForceTCP || f.conf.PreferUDP {
		return f.conf.ForceTCP
	}
	q := queryOf(w)
	return q != nil && q.proto == protoTCP && !q.internal
}
