package dnsserver

import (
	"errors"
	"time"

	"github.com/miekg/dns"
)

// cache is a block's cache: the answers that are kept, and the handlers that
// know more. It belongs to one configuration; the answers may outlive it.
type cache struct {
	conf  CacheConfig // zones in canonical form
	store *cacheStore
	srv   *Server
	next  dns.Handler // set by wrap
}

// newCache returns nil where the block has none. Answers are taken over from
// the configuration before if whoever gave them is still the same.
func (s *Server) newCache(b *Block, life *lifetime) *cache {
	if b.Cache == nil {
		return nil
	}
	conf := *b.Cache
	conf.Zones = canonical(conf.Zones)
	conf.Success.Except, conf.Denial.Except = canonical(conf.Success.Except), canonical(conf.Denial.Except)
	id := b.cacheIdentity()
	store := life.caches[id] // of a block that is served at several places
	if store == nil && s.life != nil {
		store = s.life.caches[id]
	}
	if store == nil {
		store = newCacheStore(&conf)
	}
	life.caches[id] = store
	return &cache{conf: conf, store: store, srv: s}
}

// link is the cache's link of the chain.
func (c *cache) link() middleware {
	if c == nil {
		return nil
	}
	return c.wrap
}

// wrap puts the cache before next.
func (c *cache) wrap(next dns.Handler) dns.Handler {
	c.next = next
	return c
}

// takes reports whether the cache has to do with a question. A client that
// wants no recursion, or an answer for its own network, is told what upstream
// says to it, and nobody else is. HINFO passes by: the probe of loop has to
// come back as often as it goes round.
func (c *cache) takes(r *dns.Msg) bool {
	q := r.Question[0]
	if !r.RecursionDesired || q.Qtype == dns.TypeHINFO || hasSubnet(r) {
		return false
	}
	return within(q.Name, c.conf.Zones)
}

// hasSubnet reports whether a request carries a client subnet (RFC 7871).
func hasSubnet(r *dns.Msg) bool {
	opt := r.IsEdns0()
	if opt == nil {
		return false
	}
	for _, o := range opt.Option {
		if o.Option() == dns.EDNS0SUBNET {
			return true
		}
	}
	return false
}

// ServeDNS implements [dns.Handler].
func (c *cache) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	var key cacheKey
	if !c.takes(r) || !key.setQuestion(r) {
		c.next.ServeDNS(w, r)
		return
	}
	hash := c.store.hash(&key)
	count := c.count(w, hash)
	e, now := c.store.find(hash, &key), time.Now()
	switch {
	case e != nil && !e.expired(now):
		count.hit(e.kind)
		if c.popular(e, now) {
			c.refresh(w, r, hash, &key, e)
		}
		c.reply(w, r, e, e.left(now, c.conf.KeepTTL))
	case e != nil && c.usable(e, now):
		c.stale(w, r, hash, &key, e)
	default:
		count.misses.Add(1)
		c.fetch(w, r, hash, &key)
	}
}

// reply sends an answer that is kept.
func (c *cache) reply(w dns.ResponseWriter, r *dns.Msg, e *cacheEntry, ttl uint32) {
	m, err := e.message(r, ttl)
	if err != nil { // packed by us: can't happen, but isn't worth a panic
		failQuery(w, r, err)
		return
	}
	if q := queryOf(w); q != nil {
		q.handler = answeredByCache
	}
	_ = w.WriteMsg(m) // the query has recorded what went wrong
}

// errNoAnswer is a handler that ended without a reply.
var errNoAnswer = errors.New("asking for the cache: no answer")

// fetch asks the next handlers, once for all who ask the same at the moment.
func (c *cache) fetch(w dns.ResponseWriter, r *dns.Msg, hash uint64, key *cacheKey) {
	f, leader := c.store.join(hash, key)
	if leader {
		c.lead(w, r, hash, key, f)
		return
	}
	select {
	case <-f.done:
	case <-queryContext(w).Done():
		failQuery(w, r, queryContext(w).Err())
		return
	}
	if f.entry == nil { // nothing that others could use
		c.next.ServeDNS(w, r)
		return
	}
	if q := queryOf(w); q != nil {
		q.err = f.err
	}
	c.reply(w, r, f.entry, f.entry.left(time.Now(), c.conf.KeepTTL))
}

// lead asks the next handlers and shares their answer.
func (c *cache) lead(w dns.ResponseWriter, r *dns.Msg, hash uint64, key *cacheKey, f *flight) {
	defer c.store.land(hash, f) // also when a handler panics
	got := &capture{ResponseWriter: w}
	c.next.ServeDNS(got, r)
	if got.msg == nil {
		failQuery(w, r, errNoAnswer)
		return
	}
	e := c.keep(w, r, hash, key, got.msg)
	if f != nil && e != nil {
		f.entry = e
		if q := queryOf(w); q != nil {
			f.err = q.err
		}
	}
	if e == nil || e.kind == cacheFailure {
		_ = w.WriteMsg(got.msg) // as it came
		return
	}
	who := answeredByNone
	q := queryOf(w)
	if q != nil {
		who = q.handler
	}
	c.reply(w, r, e, seconds(e.ttl))
	if q != nil {
		q.handler = who // it was asked, not remembered
	}
}

// keep stores an answer as far as it may be kept. It returns nil for one that
// is for nobody else; one that isn't stored may be shared all the same.
func (c *cache) keep(w dns.ResponseWriter, r *dns.Msg, hash uint64, key *cacheKey, m *dns.Msg) *cacheEntry {
	kind, ttl := classify(m, r.Question[0])
	if kind == cacheNothing {
		if len(m.Question) == 1 && !sameQuestion(m.Question[0], r.Question[0]) {
			c.count(w, hash).drops.Add(1)
		}
		return nil
	}
	class := &c.conf.Denial
	switch kind {
	case cacheSuccess:
		class = &c.conf.Success
		ttl = min(max(ttl, class.MinTTL), class.TTL)
	case cacheDenial:
		ttl = min(max(ttl, class.MinTTL), class.TTL)
	default:
		ttl = c.conf.FailureTTL
	}
	e, err := newCacheEntry(key, kind, m, ttl, time.Now())
	if err != nil {
		c.count(w, hash).drops.Add(1)
		return nil
	}
	if ttl > 0 && !excepted(r.Question[0].Name, class.Except) && !c.postpone(hash, key, e) {
		c.store.put(hash, e)
	}
	return e
}

// excepted is within where an empty list means none.
func excepted(name string, zones []string) bool { return len(zones) > 0 && within(name, zones) }

// postpone keeps a worse answer from taking the place of an old one that is
// still good for something (F4, RFC 8767 5): that one isn't refreshed for a
// while instead.
func (c *cache) postpone(hash uint64, key *cacheKey, e *cacheEntry) bool {
	now := time.Now()
	old := c.store.find(hash, key)
	if old == nil || !c.outranks(old, e.kind) || !c.usable(old, now) {
		return false
	}
	wait := max(e.ttl, c.conf.Stale.Recheck)
	old.retryAt.Store(int64(now.Add(wait).Sub(old.stored)))
	return true
}

// outranks reports whether an old answer is better than a new one of this
// kind.
func (c *cache) outranks(old *cacheEntry, kind cacheKind) bool {
	if kind == cacheFailure {
		return old.kind != cacheFailure
	}
	return c.conf.Stale.PreferPositive && kind == cacheDenial && old.kind == cacheSuccess
}

// usable reports whether an answer may be given at this time: it is valid, or
// not too long past it.
func (c *cache) usable(e *cacheEntry, now time.Time) bool {
	if e.kind == cacheFailure {
		return !e.expired(now)
	}
	return now.Before(e.expires.Add(c.conf.Stale.For))
}
