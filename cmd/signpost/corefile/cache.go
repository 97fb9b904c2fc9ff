package corefile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"signpost/dnsserver"
)

// The limits of cache's numbers. The TTL for everything is bounded like that
// of records; a TTL for one kind of answers is whatever its owner means.
const (
	maxCapacity  = 10_000_000
	maxClassTTL  = 7 * 24 * 3600
	maxStaleTTL  = dnsserver.MaxTTL
	maxRecheck   = 5 * time.Minute // RFC 8767 5
	defaultStale = time.Hour
)

// cache reads "cache [TTL] [ZONE…] { … }".
func (b *builder) cache(s *scan) {
	c := dnsserver.DefaultCacheConfig()
	args := s.args
	if len(args) > 0 && isNumber(args[0]) {
		ttl := s.secondsArg("ttl "+args[0], args[0], 0, dnsserver.MaxTTL)
		c.Success.TTL, c.Denial.TTL = ttl, ttl
		args = args[1:]
	}
	c.Zones = s.zones(args)
	s.options(map[string]func(*scan){
		"success":            func(o *scan) { cacheClass(o, &c.Success) },
		"denial":             func(o *scan) { cacheClass(o, &c.Denial) },
		"servfail":           func(o *scan) { c.FailureTTL = o.duration(0, maxRecheck) },
		"keepttl":            func(o *scan) { o.noArgs(); c.KeepTTL = true },
		"disable":            func(o *scan) { cacheDisable(o, &c) },
		"prefetch":           func(o *scan) { cachePrefetch(o, &c.Prefetch) },
		"serve_stale":        func(o *scan) { cacheStale(o, &c.Stale) },
		"serve_stale_policy": func(o *scan) { o.oneOf("prefer_positive"); c.Stale.PreferPositive = true },
	})
	if c.Stale.PreferPositive && c.Stale.For == 0 {
		s.errorf("serve_stale_policy: must go with serve_stale")
	}
	b.server.Block.Cache = &c
}

// isNumber tells a TTL from a zone, as CoreDNS does.
func isNumber(arg string) bool {
	_, err := strconv.Atoi(arg)
	return err == nil
}

// numberArg reads one argument as a number in the limits; name is what a
// problem calls it.
func (s *scan) numberArg(name, arg string, low, high int) int {
	n, err := strconv.Atoi(arg)
	if err != nil || n < low || n > high {
		s.argError(name, fmt.Sprintf("between %d and %d", low, high))
		return low
	}
	return n
}

// secondsArg is numberArg for a TTL.
func (s *scan) secondsArg(name, arg string, low, high int) time.Duration {
	return time.Duration(s.numberArg(name, arg, low, high)) * time.Second
}

// cacheClass reads "success CAPACITY [TTL] [MINTTL]".
func cacheClass(o *scan, class *dnsserver.CacheClass) {
	if !o.count(1, 3, "CAPACITY [TTL] [MINTTL]") {
		return
	}
	class.Capacity = o.numberArg("capacity "+o.args[0], o.args[0], 1, maxCapacity)
	if len(o.args) > 1 {
		class.TTL = o.secondsArg("ttl "+o.args[1], o.args[1], 1, maxClassTTL)
	}
	if len(o.args) > 2 {
		class.MinTTL = o.secondsArg("minttl "+o.args[2], o.args[2], 0, maxClassTTL)
	}
}

// cacheDisable reads "disable success|denial [ZONE…]".
func cacheDisable(o *scan, c *dnsserver.CacheConfig) {
	if !o.count(1, -1, "success or denial, then zones") {
		return
	}
	zones := []string{"."}
	if len(o.args) > 1 {
		zones = o.zones(o.args[1:])
	}
	switch o.args[0] {
	case "success":
		c.Success.Except = zones
	case "denial":
		c.Denial.Except = zones
	default:
		o.argError(o.args[0], "one of success, denial")
	}
}

// cachePrefetch reads "prefetch AMOUNT [[DURATION] [PERCENTAGE%]]".
func cachePrefetch(o *scan, p *dnsserver.PrefetchConfig) {
	if !o.count(1, 3, "AMOUNT [[DURATION] [PERCENTAGE%]]") {
		return
	}
	p.Amount = o.numberArg("amount "+o.args[0], o.args[0], 0, maxCapacity)
	if len(o.args) > 1 {
		p.Duration = o.durationArg(o.args[1], 0, longest)
	}
	if len(o.args) > 2 {
		percent, err := strconv.Atoi(strings.TrimSuffix(o.args[2], "%"))
		if err != nil || !strings.HasSuffix(o.args[2], "%") || percent < 10 || percent > 90 {
			o.argError(o.args[2], "between 10% and 90%")
			return
		}
		p.Percent = percent
	}
}

// cacheStale reads "serve_stale [DURATION] [immediate [TTL [RECHECK]] |
// verify [TIMEOUT [TTL [RECHECK]]]]".
func cacheStale(o *scan, c *dnsserver.StaleConfig) {
	c.For = defaultStale
	if !o.count(0, 5, "[DURATION] [immediate|verify …]") {
		return
	}
	args := o.args
	if len(args) > 0 {
		c.For = o.durationArg(args[0], 0, 30*longest)
	}
	if len(args) < 2 {
		return
	}
	mode, rest := strings.ToLower(args[1]), args[2:]
	switch {
	case mode == "verify":
		c.Verify = true
		if len(rest) > 0 {
			c.Timeout, rest = o.durationArg(rest[0], 0, time.Minute), rest[1:]
		}
	case mode != "immediate" || len(rest) > 2:
		o.argError(strings.Join(args[1:], " "), "immediate [TTL [RECHECK]] or verify [TIMEOUT [TTL [RECHECK]]]")
		return
	}
	if len(rest) > 0 {
		c.TTL = o.durationArg(rest[0], 0, maxStaleTTL*time.Second).Truncate(time.Second)
	}
	if len(rest) > 1 {
		c.Recheck = o.durationArg(rest[1], 0, maxRecheck)
	}
}

// loop reads "loop".
func (b *builder) loop(s *scan) {
	s.noArgs()
	s.noBody()
	b.server.Block.Loop = true
}
