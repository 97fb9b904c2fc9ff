package dnsserver

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// connPool keeps connections to one upstream for reuse. A connection carries
// one query at a time, so that a slow answer holds up no other.
type connPool struct {
	conf         PoolConfig
	dial         func(ctx context.Context) (net.Conn, error)
	hits, misses prometheus.Counter

	mu     sync.Mutex
	idle   []pooledConn // the one used last at the end
	closed bool
	sweep  *time.Timer // runs while there are idle ones
}

// pooledConn is a connection with its history.
type pooledConn struct {
	net.Conn
	made, used time.Time
}

// get returns the connection that was used last, or a new one; reused tells
// which. One that was kept may turn out to be closed by the other side.
func (p *connPool) get(ctx context.Context) (c pooledConn, reused bool, err error) {
	if c, ok := p.take(time.Now()); ok {
		p.hits.Inc()
		return c, true, nil
	}
	p.misses.Inc()
	conn, err := p.dial(ctx)
	if err != nil {
		return pooledConn{}, false, err
	}
	return pooledConn{Conn: conn, made: time.Now()}, false, nil
}

// take takes an idle connection that is still good.
func (p *connPool) take(now time.Time) (pooledConn, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 || p.over(p.idle[n-1], now) { // then all others are over as well, or soon
		return pooledConn{}, false
	}
	c := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return c, true
}

// over reports whether a connection has had its time.
func (p *connPool) over(c pooledConn, now time.Time) bool {
	return now.Sub(c.used) >= p.conf.Expire || p.conf.MaxAge > 0 && now.Sub(c.made) >= p.conf.MaxAge
}

// put gives a connection back; one that is too much is closed.
func (p *connPool) put(c pooledConn) {
	c.used = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.conf.MaxIdle || p.over(c, c.used) {
		_ = c.Close() // nothing is in flight
		return
	}
	p.idle = append(p.idle, c)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(p.conf.Expire, p.expire)
	}
}

// expire closes what has been idle for too long, and comes back for the rest.
func (p *connPool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, kept := time.Now(), p.idle[:0]
	for _, c := range p.idle {
		if p.over(c, now) {
			_ = c.Close() // nothing is in flight
			continue
		}
		kept = append(kept, c)
	}
	clear(p.idle[len(kept):])
	p.idle, p.sweep = kept, nil
	if len(kept) > 0 && !p.closed {
		p.sweep = time.AfterFunc(max(p.conf.Expire-now.Sub(kept[0].used), time.Millisecond), p.expire)
	}
}

// close lets all idle connections go; those in use follow when they come back.
func (p *connPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	for _, c := range p.idle {
		_ = c.Close() // nothing is in flight
	}
	p.idle = nil
}
