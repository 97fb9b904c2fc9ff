package dnsserver

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// cacheCounters count what one cache does at one address. Like all counters
// they go on over reloads, in copies so that cores don't meet.
type cacheCounters struct {
	shards [numShards]struct {
		cacheCells
		_ [64]byte // keeps neighbours off the cache line
	}
}

type cacheCells struct {
	successHits, denialHits, misses, prefetches, drops, stale atomic.Uint64
}

// hit counts an answer from the cache.
func (c *cacheCells) hit(kind cacheKind) {
	if kind == cacheSuccess {
		c.successHits.Add(1)
		return
	}
	c.denialHits.Add(1)
}

// at picks a copy.
func (c *cacheCounters) at(hash uint64) *cacheCells { return &c.shards[hash%numShards].cacheCells }

// count returns where to count for a query; in a handler's own tests nowhere.
func (c *cache) count(w dns.ResponseWriter, hash uint64) *cacheCells {
	if q := queryOf(w); q != nil && q.route != nil && q.route.cacheCounts != nil {
		return q.route.cacheCounts.at(hash)
	}
	return new(cacheCells)
}

// cacheMetricKey names counters; zones are joined with commas, as in CoreDNS.
type cacheMetricKey struct{ server, zones string }

// cacheZones is the label of a block's cache.
func (b *Block) cacheZones() string {
	zones := b.Zones
	if len(b.Cache.Zones) > 0 {
		zones = b.Cache.Zones
	}
	return strings.Join(canonical(zones), ",")
}

// cache returns the counters of a cache at an address.
func (m *metrics) cache(server, zones string) *cacheCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := cacheMetricKey{server, zones}
	c := m.caches[key]
	if c == nil {
		c = new(cacheCounters)
		m.caches[key] = c
	}
	return c
}

// setCacheStores replaces the caches whose size is shown.
func (m *metrics) setCacheStores(stores map[cacheMetricKey]*cacheStore) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stores = stores
}

var (
	byCache     = []string{"server", "zones", "view"}
	byCacheType = []string{"server", "type", "zones", "view"}

	descCacheRequests  = prometheus.NewDesc("coredns_cache_requests_total", "Questions put to the cache.", byCache, nil)
	descCacheMisses    = prometheus.NewDesc("coredns_cache_misses_total", "Questions that the cache couldn't answer.", byCache, nil)
	descCachePrefetch  = prometheus.NewDesc("coredns_cache_prefetch_total", "Answers refreshed before they expired.", byCache, nil)
	descCacheDrops     = prometheus.NewDesc("coredns_cache_drops_total", "Answers not kept because they don't fit their question.", byCache, nil)
	descCacheStale     = prometheus.NewDesc("coredns_cache_served_stale_total", "Expired answers served.", byCache, nil)
	descCacheHits      = prometheus.NewDesc("coredns_cache_hits_total", "Questions answered from the cache, by type of answer.", byCacheType, nil)
	descCacheEntries   = prometheus.NewDesc("coredns_cache_entries", "Answers in the cache, by type.", byCacheType, nil)
	descCacheEvictions = prometheus.NewDesc("coredns_cache_evictions_total", "Answers evicted for others, by type.", byCacheType, nil)
)

func cacheDescs() []*prometheus.Desc {
	return []*prometheus.Desc{
		descCacheRequests, descCacheMisses, descCachePrefetch, descCacheDrops, descCacheStale,
		descCacheHits, descCacheEntries, descCacheEvictions,
	}
}

// collectCaches emits the counters of all caches, summed up here.
func (m *metrics) collectCaches(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	counters, stores := make(map[cacheMetricKey]*cacheCounters, len(m.caches)), m.stores
	for key, c := range m.caches {
		counters[key] = c
	}
	m.mu.Unlock()
	for key, c := range counters {
		c.emit(ch, key)
	}
	for key, s := range stores {
		for kind, set := range map[string]*cacheSet{"success": s.success, "denial": s.denial} {
			labels := []string{key.server, kind, key.zones, ""}
			ch <- prometheus.MustNewConstMetric(descCacheEntries, prometheus.GaugeValue, float64(set.len()), labels...)
			ch <- prometheus.MustNewConstMetric(descCacheEvictions, prometheus.CounterValue, float64(set.evictions.Load()), labels...)
		}
	}
}

// emit turns the sums into metrics.
func (c *cacheCounters) emit(ch chan<- prometheus.Metric, key cacheMetricKey) {
	var success, denial, misses, prefetches, drops, stale uint64
	for i := range c.shards {
		s := &c.shards[i]
		success, denial = success+s.successHits.Load(), denial+s.denialHits.Load()
		misses, prefetches = misses+s.misses.Load(), prefetches+s.prefetches.Load()
		drops, stale = drops+s.drops.Load(), stale+s.stale.Load()
	}
	labels := []string{key.server, key.zones, ""}
	count := func(d *prometheus.Desc, n uint64, labels []string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	count(descCacheRequests, success+denial+misses, labels)
	count(descCacheMisses, misses, labels)
	count(descCachePrefetch, prefetches, labels)
	count(descCacheDrops, drops, labels)
	count(descCacheStale, stale, labels)
	typed := func(kind string) []string { return slices.Insert(slices.Clone(labels), 1, kind) }
	count(descCacheHits, success, typed("success"))
	count(descCacheHits, denial, typed("denial"))
}

// cacheStores are the caches of a configuration, by what they are called in
// metrics: one that serves several addresses goes by its first.
func cacheStores(cfg Config, life *lifetime) map[cacheMetricKey]*cacheStore {
	stores := map[cacheMetricKey]*cacheStore{}
	for i := range cfg.Blocks {
		b := &cfg.Blocks[i]
		if b.Cache == nil {
			continue
		}
		addr, _ := splitListen(b.Listen[0]) // checked by validate
		stores[cacheMetricKey{serverLabel(b.Transport, addr), b.cacheZones()}] = life.caches[b.cacheIdentity()]
	}
	return stores
}

// serverLabel is an address as CoreDNS's metrics show it.
func serverLabel(t Transport, addr netip.AddrPort) string {
	return t.String() + "://" + listenString(addr)
}
