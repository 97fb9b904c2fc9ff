package dnsserver

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/miekg/dns"
	"golang.org/x/time/rate"
)

// RateLimitConfig bounds what the clients of one network get (W28). Who sends
// queries with forged source addresses, to have us flood somebody else, gets
// his victim a few replies and a few short ones that say "come over TCP",
// which the victim never does and a real client does.
//
// Only replies over UDP to clients that have not shown that they are where
// they say count: a valid DNS cookie shows it, and so does TCP.
type RateLimitConfig struct {
	// Responses, NXDomains and Errors are limits in replies a second, each for
	// one client network and one kind of reply: positive and NODATA, NXDOMAIN,
	// and other codes. 0: none, but NXDomains and Errors default to Responses.
	Responses, NXDomains, Errors int
	// Queries limits one client address, over any transport, cookie or not, in
	// queries a second; 0: no limit. Beyond it UDP queries are dropped and
	// others are refused.
	Queries int
	// Burst is for how many seconds a client may save its share; default 5.
	Burst int
	// Slip makes every nth reply beyond the limit a truncated one; 1: all, 0:
	// none. Nil: 2.
	Slip *int
	// IPv4Bits and IPv6Bits are how large a client network is; default 24 and
	// 56.
	IPv4Bits, IPv6Bits int
	// TableSize is how many networks and addresses are remembered; those that
	// have been quiet for longest are forgotten. Default 100,000, about 20 MB.
	TableSize int
	// Exempt are networks without limits.
	Exempt []netip.Prefix
}

// Defaults of [RateLimitConfig].
const (
	defaultRateBurst = 5
	defaultRateSlip  = 2
	defaultRateV4    = 24
	defaultRateV6    = 56
	defaultRateTable = 100_000
)

// replyKind is what counts together.
type replyKind uint8

const (
	kindAnswer replyKind = iota
	kindNXDomain
	kindError
	kindQuery // a query, before it has a reply
	numKinds
)

// rateLimiter is the link of a RateLimitConfig.
type rateLimiter struct {
	rates   [numKinds]int
	burst   int
	slip    int64
	v4, v6  int
	exempt  []netip.Prefix
	buckets *bucketTable
	slipped atomic.Int64
	metrics *linkMetrics
}

// rateLimit makes the link.
func (s *Server) rateLimit(cfg *RateLimitConfig) (middleware, error) {
	if cfg == nil {
		return nil, nil
	}
	l := &rateLimiter{
		rates: [numKinds]int{
			cfg.Responses, orDefault(cfg.NXDomains, cfg.Responses), orDefault(cfg.Errors, cfg.Responses), cfg.Queries,
		},
		burst: orDefault(cfg.Burst, defaultRateBurst), slip: defaultRateSlip,
		v4: orDefault(cfg.IPv4Bits, defaultRateV4), v6: orDefault(cfg.IPv6Bits, defaultRateV6),
		exempt: cfg.Exempt, metrics: s.metrics.links,
	}
	if cfg.Slip != nil {
		l.slip = int64(*cfg.Slip)
	}
	size := orDefault(cfg.TableSize, defaultRateTable)
	if slices.Min(l.rates[:]) < 0 || slices.Max(l.rates[:]) == 0 || l.burst < 1 || l.slip < 0 || size < 1 {
		return nil, fmt.Errorf("ratelimit: limits must not be negative, and one must be set")
	}
	if l.v4 < 1 || l.v4 > 32 || l.v6 < 1 || l.v6 > 128 {
		return nil, fmt.Errorf("ratelimit: networks of %d and %d bits: must be 1 to 32 and 1 to 128", l.v4, l.v6)
	}
	l.buckets = newBucketTable(size)
	return l.wrap, nil
}

// wrap is the middleware.
func (l *rateLimiter) wrap(next dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		q := queryOf(w)
		if q == nil || q.internal {
			next.ServeDNS(w, r)
			return
		}
		from := clientOf(w).Addr()
		if slices.ContainsFunc(l.exempt, func(p netip.Prefix) bool { return p.Contains(from) }) {
			next.ServeDNS(w, r)
			return
		}
		if !l.allow(kindQuery, netip.PrefixFrom(from, from.BitLen())) {
			l.tooMany(q, w, r)
			return
		}
		if q.provesAddress() {
			next.ServeDNS(w, r)
			return
		}
		next.ServeDNS(&limitedWriter{wrapped{w}, l, q, r, l.network(from)}, r)
	})
}

// network is what a client's address counts as.
func (l *rateLimiter) network(a netip.Addr) netip.Prefix {
	bits := l.v6
	if a.Is4() {
		bits = l.v4
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.PrefixFrom(a, a.BitLen())
	}
	return p
}

// allow takes one off a share.
func (l *rateLimiter) allow(kind replyKind, network netip.Prefix) bool {
	perSecond := l.rates[kind]
	return perSecond == 0 || l.buckets.allow(bucketKey{network, kind}, perSecond, l.burst*perSecond)
}

// tooMany ends a query of a client that asks too much.
func (l *rateLimiter) tooMany(q *query, w dns.ResponseWriter, r *dns.Msg) {
	claim(w, answeredByRateLimit)
	if q.proto == protoUDP {
		l.count(q, "query_dropped")
		return
	}
	l.count(q, "query_refused")
	refuse(w, r)
}

func (l *rateLimiter) count(q *query, action string) {
	server := q.serverLabel()
	l.metrics.limited.WithLabelValues(server, action).Inc()
}

// limitedWriter is the response writer that holds replies back.
type limitedWriter struct {
	wrapped
	l       *rateLimiter
	q       *query
	req     *dns.Msg
	network netip.Prefix
}

// WriteMsg implements [dns.ResponseWriter].
func (w *limitedWriter) WriteMsg(m *dns.Msg) error {
	if w.l.allow(kindOf(m), w.network) {
		return w.ResponseWriter.WriteMsg(m) //nolint:wrapcheck // only passes by
	}
	if w.l.slip == 0 || w.l.slipped.Add(1)%w.l.slip != 0 {
		w.l.count(w.q, "dropped")
		return nil
	}
	w.l.count(w.q, "truncated")
	short := new(dns.Msg).SetReply(w.req)
	short.Truncated, short.Authoritative = true, m.Authoritative
	return w.ResponseWriter.WriteMsg(short) //nolint:wrapcheck // only passes by
}

// kindOf says what a reply counts as.
func kindOf(m *dns.Msg) replyKind {
	switch m.Rcode {
	case dns.RcodeSuccess:
		return kindAnswer
	case dns.RcodeNameError:
		return kindNXDomain
	default:
		return kindError
	}
}

// numBucketShards is how many parts the table of shares has, each with a lock.
const numBucketShards = 16

// bucketKey is whose share it is.
type bucketKey struct {
	network netip.Prefix
	kind    replyKind
}

// bucketTable holds a bounded number of shares.
type bucketTable struct {
	seed   maphash.Seed
	shards [numBucketShards]bucketShard
}

type bucketShard struct {
	mu  sync.Mutex
	lru *simplelru.LRU[bucketKey, *rate.Limiter]
}

func newBucketTable(size int) *bucketTable {
	t := &bucketTable{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].lru, _ = simplelru.NewLRU[bucketKey, *rate.Limiter](max(size/numBucketShards, 1), nil) // fails below 1 only
	}
	return t
}

// allow takes one off a share of perSecond and at most burst.
func (t *bucketTable) allow(key bucketKey, perSecond, burst int) bool {
	shard := &t.shards[maphash.Comparable(t.seed, key)%numBucketShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	bucket, ok := shard.lru.Get(key)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(perSecond), burst)
		shard.lru.Add(key, bucket)
	}
	return bucket.Allow()
}
