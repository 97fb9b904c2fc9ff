package dnsserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

const (
	// loopSightings is how often the probe may be seen: when it is sent, and
	// once more for an upstream that asks back.
	loopSightings = 2
	// loopPatience is how long the probe is tried, loopPause the time between
	// two attempts: upstreams may start after us.
	loopPatience = 30 * time.Second
	loopPause    = 2 * time.Second
)

// LoopError says that queries come back to this server. It is fatal: each
// query would go round until it times out.
type LoopError struct {
	From  netip.AddrPort // who sent the probe back
	At    string         // the address that it came to
	Zone  string
	Probe string // the name asked for
}

// Error tells where the loop is and what to look at.
func (e *LoopError) Error() string {
	return fmt.Sprintf("plugin/loop: Loop (%s -> %s) detected for zone %q: "+
		"an upstream of this zone leads back here; look for loopback addresses behind forward, in resolv.conf too. Query: %q",
		e.From, e.At, e.Zone, "HINFO "+e.Probe)
}

// loopProbe looks for a forwarding loop in a block: it asks for a name that
// nobody else can know and counts how often the question comes by (F2).
type loopProbe struct {
	srv  *Server
	fail func(error)
	zone string
	name string

	done     atomic.Bool
	sighted  atomic.Int32
	tasks    *tasks
	patience time.Duration
	pause    time.Duration
}

// loop is the link of a block that looks for loops; nil if it doesn't.
func (s *Server) loop(b *Block, cfg Config, life *lifetime) middleware {
	if !b.Loop || len(b.Zones) == 0 {
		return nil
	}
	p := &loopProbe{
		srv: s, fail: cfg.Fail, zone: dns.CanonicalName(b.Zones[0]), tasks: newTasks(),
		patience: loopPatience, pause: loopPause,
	}
	p.name = fmt.Sprintf("%d.%d.%s", rand.Uint64(), rand.Uint64(), strings.TrimPrefix(p.zone, "."))
	addr, _ := splitListen(b.Listen[0]) // checked by validate
	key := listenKey(b.Transport, addr)
	life.add(func() {
		sv := s.plan[key]
		p.tasks.run(func(ctx context.Context) { p.run(ctx, sv) })
	}, p.tasks.close)
	return p.wrap
}

// wrap counts the probe's sightings and lets everything pass.
func (p *loopProbe) wrap(next dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		q := r.Question[0]
		if q.Qtype == dns.TypeHINFO && !p.done.Load() && strings.EqualFold(q.Name, p.name) && p.looped(w) {
			refuse(w, r)
			return
		}
		next.ServeDNS(w, r)
	})
}

// looped counts a sighting and reports the loop once.
func (p *loopProbe) looped(w dns.ResponseWriter) bool {
	if p.sighted.Add(1) <= loopSightings {
		return false
	}
	if p.done.CompareAndSwap(false, true) {
		err := &LoopError{Zone: p.zone, Probe: p.name}
		if q := queryOf(w); q != nil {
			err.From, err.At = q.client.remote(), strings.TrimPrefix(q.serving.label, "dns://")
		}
		p.fail(err)
	}
	return true
}

// run sends the probe until it is answered, by whomever and however.
func (p *loopProbe) run(ctx context.Context, sv *serving) {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	defer p.done.Store(true) // nobody else is to make use of it
	for {
		p.sighted.Store(0)
		if p.probe(ctx, sv) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.pause):
		}
	}
}

// probe asks once; true means that there was an answer, or a loop.
func (p *loopProbe) probe(ctx context.Context, sv *serving) bool {
	if sv == nil {
		return true
	}
	r := new(dns.Msg).SetQuestion(p.name, dns.TypeHINFO)
	q := &query{srv: p.srv, serving: sv, start: time.Now(), ctx: ctx, internal: true, client: absent{}}
	defer p.srv.recoverQuery(q)
	p.srv.dispatch(q, r)
	return p.done.Load() || q.reply != nil && q.err == nil
}
