package dnsserver

import (
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"
)

// CacheConfig keeps answers of the handlers after it (CoreDNS's cache, F3,
// F4). Cluster zones come before it: what they answer is never kept, so that a
// change is visible at the next query (L7, L8). Start from
// [DefaultCacheConfig].
type CacheConfig struct {
	// Zones limits what is kept to names in these; empty: all of the block.
	Zones []string
	// Success is for answers with records, Denial for NXDOMAIN, NODATA and
	// SERVFAIL.
	Success, Denial CacheClass
	// FailureTTL is how long SERVFAIL is kept, at most five minutes (RFC 2308
	// 7.1); 0: not at all.
	FailureTTL time.Duration
	// KeepTTL hands out the TTL that an answer came with, not what is left.
	KeepTTL bool
	// Prefetch refreshes popular answers before they expire.
	Prefetch PrefetchConfig
	// Stale serves answers that have expired while upstreams fail (RFC 8767).
	Stale StaleConfig
}

// CacheClass is one kind of answers.
type CacheClass struct {
	// Capacity is the number of answers kept. Their octets are bounded too, at
	// cachedOctets for each place.
	Capacity int
	// TTL and MinTTL bound how long an answer is kept and said to be valid.
	// Where they contradict, TTL holds.
	TTL, MinTTL time.Duration
	// Except are zones of which nothing is kept.
	Except []string
}

// PrefetchConfig says what is popular: Amount queries without a gap of
// Duration between them; 0: nothing is. It is refreshed when Percent of its
// time are left.
type PrefetchConfig struct {
	Amount   int
	Duration time.Duration
	Percent  int // 10 to 90
}

// StaleConfig says when expired answers are served.
type StaleConfig struct {
	// For is how long after its expiry an answer is good for it; 0: never.
	For time.Duration
	// Verify asks upstream first and serves the old answer when that fails or
	// takes longer than Timeout (0: as long as it takes). Without Verify, the
	// old answer is served at once and refreshed behind it.
	Verify  bool
	Timeout time.Duration
	// TTL is what such answers carry, Recheck the least time between two
	// attempts to refresh one.
	TTL, Recheck time.Duration
	// PreferPositive keeps an answer with records beside a later denial, and
	// prefers it as long as it is good for anything.
	PreferPositive bool
}

// The defaults and limits of CoreDNS's cache.
const (
	defaultCacheCapacity = 9984
	defaultSuccessTTL    = time.Hour
	defaultDenialTTL     = 30 * time.Minute
	defaultMinTTL        = 5 * time.Second
	defaultFailureTTL    = 5 * time.Second
	maxFailureTTL        = 5 * time.Minute

	defaultPrefetchGap     = time.Minute
	defaultPrefetchPercent = 10
)

// DefaultCacheConfig is the cache that CoreDNS has without options.
func DefaultCacheConfig() CacheConfig {
	return CacheConfig{
		Success:    CacheClass{Capacity: defaultCacheCapacity, TTL: defaultSuccessTTL, MinTTL: defaultMinTTL},
		Denial:     CacheClass{Capacity: defaultCacheCapacity, TTL: defaultDenialTTL, MinTTL: defaultMinTTL},
		FailureTTL: defaultFailureTTL,
		Prefetch:   PrefetchConfig{Duration: defaultPrefetchGap, Percent: defaultPrefetchPercent},
	}
}

// validate reports everything that is wrong.
func (c *CacheConfig) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cache: "+format, args...)) }
	c.Success.validate("success", fail)
	c.Denial.validate("denial", fail)
	validateZones(c.Zones, fail)
	if c.FailureTTL < 0 || c.FailureTTL > maxFailureTTL {
		fail("servfail %v: must be between 0 and %v", c.FailureTTL, maxFailureTTL)
	}
	if p := c.Prefetch; p.Amount < 0 || p.Amount > 0 && (p.Percent < 10 || p.Percent > 90) {
		fail("prefetch %d %d%%: amount must not be negative, percentage between 10 and 90", p.Amount, p.Percent)
	}
	if min(c.Stale.For, c.Stale.Timeout, c.Stale.TTL, c.Stale.Recheck) < 0 {
		fail("serve_stale: durations must not be negative")
	}
	return errors.Join(errs...)
}

func (c *CacheClass) validate(name string, fail func(format string, args ...any)) {
	if c.Capacity < 1 {
		fail("%s: capacity %d: must be at least 1", name, c.Capacity)
	}
	if min(c.TTL, c.MinTTL) < 0 {
		fail("%s: ttl must not be negative", name)
	}
	validateZones(c.Except, fail)
}

func validateZones(zones []string, fail func(format string, args ...any)) {
	for _, zone := range zones {
		if _, ok := dns.IsDomainName(zone); !ok || zone == "" {
			fail("zone %q: not a domain name", zone)
		}
	}
}

// canonical returns zones in canonical form.
func canonical(zones []string) []string {
	out := make([]string, len(zones))
	for i, zone := range zones {
		out[i] = dns.CanonicalName(zone)
	}
	return out
}

// cacheIdentity tells whether the answers of a block's cache are worth keeping
// over a reload: what may be in it and who is asked are the same.
func (b *Block) cacheIdentity() string {
	return fmt.Sprintf("%q %q %+v %+v", b.Zones, b.Listen, *b.Cache, b.Forwards)
}
