package dnsserver

import (
	"context"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// popular counts a hit and reports whether the answer is worth refreshing now:
// often asked for, and close to its end.
func (c *cache) popular(e *cacheEntry, now time.Time) bool {
	p := &c.conf.Prefetch
	if p.Amount == 0 || e.kind == cacheFailure {
		return false
	}
	age := now.Sub(e.stored)
	if last := e.lastHit.Swap(int64(age)); int64(age)-last > int64(p.Duration) {
		e.hits.Store(0)
	}
	if e.hits.Add(1) < int32(min(p.Amount, 1<<30)) {
		return false
	}
	// The last second always counts: a percentage of a short time is less.
	threshold := max(e.ttl*time.Duration(p.Percent)/100, time.Second)
	return e.expires.Sub(now) <= threshold
}

// stale answers with what has expired, before or after asking upstream.
func (c *cache) stale(w dns.ResponseWriter, r *dns.Msg, hash uint64, key *cacheKey, e *cacheEntry) {
	now := time.Now()
	waits := int64(now.Sub(e.stored)) < e.retryAt.Load()
	if c.conf.Stale.Verify && !waits {
		if fresh := c.verify(w, r, hash, key, e); fresh != nil {
			c.count(w, hash).misses.Add(1)
			c.reply(w, r, fresh, fresh.left(time.Now(), c.conf.KeepTTL))
			return
		}
	}
	count := c.count(w, hash)
	count.hit(e.kind)
	count.stale.Add(1)
	c.reply(w, r, e, seconds(c.conf.Stale.TTL))
	if !c.conf.Stale.Verify && !waits {
		c.refresh(w, r, hash, key, e)
	}
}

// verify asks upstream and waits; nil means that the old answer has to do.
func (c *cache) verify(w dns.ResponseWriter, r *dns.Msg, hash uint64, key *cacheKey, e *cacheEntry) *cacheEntry {
	f := c.refresh(w, r, hash, key, e)
	if f == nil {
		return nil
	}
	var timeout <-chan time.Time
	if c.conf.Stale.Timeout > 0 {
		t := time.NewTimer(c.conf.Stale.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-f.done:
	case <-timeout:
		return nil
	case <-queryContext(w).Done():
		return nil
	}
	if f.entry == nil || c.outranks(e, f.entry.kind) {
		return nil
	}
	return f.entry
}

// refresh asks for an answer again, in the background and on behalf of nobody:
// one flight at a time, and as many as the queries in flight leave room for.
// It returns the flight, nil if none could start.
func (c *cache) refresh(w dns.ResponseWriter, r *dns.Msg, hash uint64, key *cacheKey, e *cacheEntry) *flight {
	parent := queryOf(w)
	if parent == nil {
		return nil
	}
	f, leader := c.store.join(hash, key)
	if !leader || f == nil {
		return f
	}
	if !c.srv.udpSlots.try() {
		c.store.land(hash, f)
		return nil
	}
	if !e.expired(time.Now()) {
		c.count(w, hash).prefetches.Add(1)
	}
	child, req, k := parent.detached(), refreshRequest(r), *key
	started := c.srv.tasks.run(func(ctx context.Context) {
		defer c.srv.udpSlots.release()
		defer c.srv.recoverQuery(child)
		child.ctx = ctx
		c.lead(child, req, hash, &k, f)
	})
	if !started {
		c.srv.udpSlots.release()
		c.store.land(hash, f)
		return nil
	}
	return f
}

// refreshRequest is the question without what was its client's own.
func refreshRequest(r *dns.Msg) *dns.Msg {
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Id: dns.Id(), RecursionDesired: true, CheckingDisabled: r.CheckingDisabled}}
	m.Question = []dns.Question{r.Question[0]}
	if opt := r.IsEdns0(); opt != nil {
		m.SetEdns0(defaultUDPSize, opt.Do())
	}
	return m
}

// detached is a query that the server asks itself and that outlives q.
func (q *query) detached() *query {
	return &query{
		srv: q.srv, serving: q.serving, route: q.route, proto: protoUDP, shard: q.shard,
		client: absent{q.client.local(), q.client.remote()},
		start:  time.Now(), internal: true, depth: q.depth + 1,
	}
}

// absent is a client that doesn't wait for a reply.
type absent struct{ localAddr, remoteAddr netip.AddrPort }

func (absent) send([]byte) error        { return nil }
func (a absent) local() netip.AddrPort  { return a.localAddr }
func (a absent) remote() netip.AddrPort { return a.remoteAddr }
