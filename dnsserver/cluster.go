package dnsserver

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// Cluster answers for the cluster and reverse zones from a store of services.
type Cluster struct {
	conf  *viewConfig
	store *discovery.Store
	log   *slog.Logger
	view  atomic.Pointer[view]
	start *patientStart
	// changes wakes those who tell others of new serials.
	changes signal
}

// NewCluster returns the zones of a valid configuration over a store. It
// answers from what the store has now; [Cluster.Run] keeps it current.
func NewCluster(c ClusterConfig, store *discovery.Store, log *slog.Logger) *Cluster {
	cluster := &Cluster{conf: newViewConfig(c), store: store, log: log, start: newPatientStart(c.StartupTimeout)}
	cluster.view.Store(newView(cluster.conf, firstSerial(time.Now())).advance(store.Current()))
	if cluster.Synced() {
		cluster.start.done()
	}
	return cluster
}

// Run follows the store until the context ends, which is no error. It is for
// one goroutine. A query sees either the view before a revision or the one
// after it.
func (c *Cluster) Run(ctx context.Context) error {
	for {
		snap := c.store.Current()
		c.update(snap)
		select {
		case <-ctx.Done():
			return nil
		case <-c.store.Changed(snap.Revision):
		}
	}
}

func (c *Cluster) update(snap *discovery.Snapshot) {
	before := c.view.Load()
	next := before.advance(snap)
	c.view.Store(next)
	if next.serial != before.serial {
		c.changes.wake()
	}
	if next.snap.Synced != before.snap.Synced {
		c.start.done()
		c.log.Info("cluster zones are complete", "revision", snap.Revision, "services", next.services.Len())
	}
}

// Synced reports whether the source has delivered everything once: from then
// on a name that is not there does not exist.
func (c *Cluster) Synced() bool { return c.view.Load().snap.Synced }

// Revision returns the revision of the store that is being answered from.
func (c *Cluster) Revision() uint64 { return c.view.Load().snap.Revision }

// Serial returns the SOA serial of the zones. It is one for all of them, and
// one higher whenever any answer differs (G7).
func (c *Cluster) Serial() uint32 { return c.view.Load().serial }

// Middleware answers names in the zones and hands the others to next, as well
// as those that don't exist in zones that fall through. A nil next refuses
// them (T12).
func (c *Cluster) Middleware(next dns.Handler) dns.Handler {
	if next == nil {
		next = dns.HandlerFunc(refuse)
	}
	return dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) {
		if reply := c.answer(w, req, next); reply != nil {
			c.send(w, reply)
			return
		}
		next.ServeDNS(w, req)
	})
}

func (c *Cluster) send(w dns.ResponseWriter, m *dns.Msg) {
	if err := w.WriteMsg(m); err != nil {
		c.log.Debug("sending a reply failed", "client", w.RemoteAddr(), "error", err)
	}
}

// answer returns the reply to a query, or nil if it is for the next handler.
func (c *Cluster) answer(w dns.ResponseWriter, req *dns.Msg, next dns.Handler) *dns.Msg {
	var q queryName
	if len(req.Question) != 1 || req.Question[0].Qclass != dns.ClassINET || !q.parse(req.Question[0].Name) {
		return nil
	}
	name, qtype := req.Question[0].Name, req.Question[0].Qtype
	v, r := c.lookup(queryContext(w), &q, qtype)
	if r.outcome == outside || r.outcome == missing && c.fallsThrough(name, r) && !r.zone.doubled(&q) {
		return nil
	}
	reply := new(dns.Msg).SetReply(req)
	reply.Authoritative, reply.RecursionAvailable = true, c.conf.RecursionAvailable
	if r.outcome == alias {
		walk := chase{cluster: c, view: v, next: next, client: w, req: req, reply: reply, qtype: qtype}
		walk.follow(name, r)
		return reply
	}
	v.fill(reply, name, r)
	return reply
}

// fill puts what a lookup of ours found into a reply: records, or an SOA for
// negative caching (G6, RFC 2308).
func (v *view) fill(reply *dns.Msg, owner string, r result) {
	w := recordWriter{view: v, owner: owner, zone: r.zone}
	switch r.outcome {
	case answered:
		answer, extra := w.records(r)
		reply.Answer, reply.Extra = append(reply.Answer, answer...), append(reply.Extra, extra...)
	case missing:
		reply.Rcode = dns.RcodeNameError
		reply.Ns = append(reply.Ns, w.soa())
	case empty:
		reply.Ns = append(reply.Ns, w.soa())
	default:
		failReply(reply)
	}
}

// fallsThrough reports whether a name that does not exist is the next
// handler's.
func (c *Cluster) fallsThrough(name string, r result) bool {
	if r.zone.private {
		return false
	}
	for _, zone := range c.conf.Fallthrough {
		if dns.IsSubDomain(strings.ToLower(dns.Fqdn(zone)), strings.ToLower(name)) {
			return true
		}
	}
	return false
}

// doubled reports whether a name has the zone in it twice, as names have that
// a search path was added to although they were complete. No one else knows
// them either (A5).
func (z *clusterZone) doubled(q *queryName) bool {
	if z.labels == 0 {
		return false
	}
	suffix := z.wire[:len(z.wire)-1]
	for search := range 3 { // ZONE, svc.ZONE, NAMESPACE.svc.ZONE
		end := q.labels - z.labels - search
		if start := end - z.labels; start >= 0 && string(q.wire[q.starts[start]:q.starts[end]]) == string(suffix) {
			return true
		}
	}
	return false
}
