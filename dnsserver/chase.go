package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// maxChase is how many aliases of our own are followed for one query (X8).
const maxChase = 8

// chaseTimeout bounds the wait for a target outside of the zones. Stub
// resolvers give up after five seconds.
const chaseTimeout = 5 * time.Second

// chase is one query's walk along aliases.
type chase struct {
	cluster *Cluster
	view    *view
	next    dns.Handler
	client  dns.ResponseWriter
	req     *dns.Msg
	reply   *dns.Msg
	qtype   uint16
}

// follow adds the alias at owner to the reply and goes on to what it is an
// alias of: in the same view, so that one response is of one revision (X5), or
// outside. The reply's code is that of the last name (RFC 6604 §3).
func (c *chase) follow(owner string, r result) {
	for range maxChase {
		w := recordWriter{view: c.view, owner: owner, zone: r.zone}
		cname, _ := w.records(r)
		c.reply.Answer = append(c.reply.Answer, cname...)
		target := r.service.alias
		if c.qtype == dns.TypeCNAME || c.qtype == dns.TypeANY || c.visited(target) {
			return
		}
		var q queryName
		if !q.parse(target) {
			return
		}
		if r = c.view.lookup(&q, c.qtype); r.outcome != alias {
			c.arrive(target, r)
			return
		}
		owner = target
	}
}

// visited reports whether the chain came by a name already (X8).
func (c *chase) visited(name string) bool {
	for _, rr := range c.reply.Answer {
		if strings.EqualFold(rr.Header().Name, name) {
			return true
		}
	}
	return false
}

// arrive ends the walk at a name that is no alias of ours.
func (c *chase) arrive(name string, r result) {
	switch {
	case r.outcome == outside:
		c.resolve(name)
	case r.outcome == missing && c.cluster.fallsThrough(name, r):
		c.handOver(name)
	default:
		c.view.fill(c.reply, name, r)
	}
}

// resolve asks for a target outside of the zones. Who did not ask for
// recursion gets the alias and follows it himself, as from any authoritative
// server; so does everyone if there is nobody to ask.
func (c *chase) resolve(name string) {
	resolver := c.cluster.conf.Resolve
	if resolver == nil || !c.req.RecursionDesired || isAddress(name) {
		return
	}
	ctx, cancel := context.WithTimeout(queryContext(c.client), chaseTimeout)
	defer cancel()
	question := dns.Question{Name: name, Qtype: c.qtype, Qclass: dns.ClassINET}
	got, err := resolver(ctx, question, c.req)
	if err != nil {
		c.cluster.log.Debug("chasing an alias failed", "target", name, "error", err)
		got = nil
	}
	c.merge(got)
}

// isAddress reports whether someone wrote an address where a name belongs. It
// has no records, but the alias that says so exists (X10).
func isAddress(name string) bool {
	_, err := netip.ParseAddr(strings.TrimSuffix(name, "."))
	return err == nil
}

// handOver asks the next handler for a target that our zones do not have but
// let through (X7).
func (c *chase) handOver(name string) {
	req := c.req.Copy()
	req.Question = []dns.Question{{Name: name, Qtype: c.qtype, Qclass: dns.ClassINET}}
	w := &capture{ResponseWriter: c.client}
	c.next.ServeDNS(w, req)
	c.merge(w.msg)
}

// merge adds what others said about the target, nil for nothing: their records
// with their TTLs (X2) and, if they say that there are none, their SOA (X3). If
// they failed, the whole query has: an alias alone would pass for "no such
// records" (X9).
func (c *chase) merge(got *dns.Msg) {
	switch {
	case got == nil:
		c.fail()
	case got.Rcode == dns.RcodeSuccess || got.Rcode == dns.RcodeNameError:
		c.reply.Rcode = got.Rcode
		c.reply.Truncated = got.Truncated
		c.reply.Answer = append(c.reply.Answer, got.Answer...)
		for _, rr := range got.Ns {
			if rr.Header().Rrtype == dns.TypeSOA {
				c.reply.Ns = append(c.reply.Ns, rr)
			}
		}
	case got.Rcode == dns.RcodeRefused && !c.cluster.conf.RecursionAvailable:
		// Nobody recurses here for this client: the alias is all there is.
	default:
		c.fail()
	}
}

func (c *chase) fail() { failReply(c.reply) }

// failReply makes a reply a plain SERVFAIL: no records, no authority (L2).
func failReply(m *dns.Msg) {
	m.Rcode, m.Authoritative = dns.RcodeServerFailure, false
	m.Answer, m.Ns, m.Extra = nil, nil, nil
}

// capture keeps a handler's reply instead of sending it.
type capture struct {
	dns.ResponseWriter
	msg *dns.Msg
}

func (c *capture) unwrap() dns.ResponseWriter { return c.ResponseWriter }

// WriteMsg implements [dns.ResponseWriter].
func (c *capture) WriteMsg(m *dns.Msg) error {
	c.msg = m
	return nil
}

// Write implements [dns.ResponseWriter] for handlers that pack themselves.
func (c *capture) Write(wire []byte) (int, error) {
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		return 0, fmt.Errorf("reading the reply of the next handler: %w", err)
	}
	c.msg = m
	return len(wire), nil
}
