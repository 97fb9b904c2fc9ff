package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// replyBuffers are reused between replies; they grow to the largest reply that
// went through them.
var replyBuffers = sync.Pool{New: func() any { b := make([]byte, 4096); return &b }}

// replyOPTFor describes the reply's OPT record; nil when the request had none.
func replyOPTFor(in *inspected, p proto, size uint16, idle time.Duration) *replyOPT {
	if !in.edns.present {
		return nil
	}
	opt := &replyOPT{size: size, do: in.edns.do}
	if p == protoTCP && in.edns.keepalive { // RFC 7828: over UDP it is ignored
		opt.keepalive = idle
	}
	return opt
}

// addCookie gives a client that sent a cookie its cookie for the next query
// (RFC 7873 5.2).
func (s *Server) addCookie(opt *replyOPT, in *inspected, c client) {
	if opt == nil || in.edns.cookie.n == 0 {
		return
	}
	opt.hasCookie, opt.cookie = true, s.cookies.make(&in.edns.cookie, c.remote().Addr())
}

// screen inspects a request and replies to it when its bytes alone decide.
// The buffer is for the reply.
func (s *Server) screen(sv *serving, c client, p proto, req, buf []byte) (inspected, verdict) {
	in, v := inspect(req)
	if v == reject && sv.otherClasses && in.rcode == dns.RcodeRefused {
		if in.rcode = questionFault(in.qtype, dns.ClassINET); in.rcode == dns.RcodeSuccess {
			v = accept
		}
	}
	switch v {
	case discard:
		s.metrics.dropped(dropJunk)
	case reject:
		sv.refused.reject(p, c.remote().Addr(), &in, len(req))
		opt := replyOPTFor(&in, p, sv.cfg.MaxUDPSize, sv.cfg.TCP.Idle)
		s.addCookie(opt, &in, c)
		if err := c.send(appendReject(buf[:0], req, &in, opt)); err != nil {
			s.metrics.dropped(dropSend)
		}
	case accept:
	}
	return in, v
}

// serve answers a query that passed the inspection. A panic in a handler costs
// its client a SERVFAIL and nobody else anything (L11).
func (s *Server) serve(q *query) {
	q.srv, q.ctx, q.start = s, s.base, time.Now()
	defer s.account(q)
	defer s.recoverQuery(q)
	r := new(dns.Msg)
	if err := r.Unpack(q.raw[:q.in.end]); err != nil {
		q.fail(dns.RcodeFormatError)
		return
	}
	s.dispatch(q, r)
}

// dispatch hands the question to the most specific zone.
func (s *Server) dispatch(q *query, r *dns.Msg) {
	q.route = q.serving.match(r.Question[0].Name)
	if q.route == nil {
		q.fail(dns.RcodeRefused)
		return
	}
	q.route.handler.ServeDNS(q, r)
}

// recoverQuery turns a panic into SERVFAIL.
func (s *Server) recoverQuery(q *query) {
	cause := recover()
	if cause == nil {
		return
	}
	s.metrics.panics.Inc()
	q.serving.cfg.Log.Error("recovered from a panic while answering",
		"panic", cause, "stack", string(debug.Stack()))
	q.err = fmt.Errorf("answering: panic: %v", cause)
	q.fail(dns.RcodeServerFailure)
}

// account counts the query where its block wants that.
func (s *Server) account(q *query) {
	switch {
	case q.route == nil:
		q.serving.refused.done(q)
	case q.route.counters != nil:
		q.route.counters.done(q)
	}
}

// maxDepth limits how deep questions that the server asks itself may nest
// (X8).
const maxDepth = 8

// errTooDeep ends a chase that goes round in circles.
var errTooDeep = errors.New("resolving: too many nested questions")

// Resolve is the [Resolver] of a cluster that is served by a [Server]. It
// answers a question as if the client of the query in ctx had asked it: with
// the blocks of the same listening address, but without a socket. ctx must
// come from that query's writer (queryContext). The reply may be shared: it
// must not be changed.
func Resolve(ctx context.Context, question dns.Question, req *dns.Msg) (*dns.Msg, error) {
	parent, ok := ctx.Value(queryKey{}).(*query)
	if !ok {
		return nil, fmt.Errorf("resolving %q: not in a query", question.Name)
	}
	if parent.depth >= maxDepth {
		return nil, errTooDeep
	}
	child := &query{
		srv: parent.srv, serving: parent.serving, proto: parent.proto, shard: parent.shard, client: parent.client,
		start: time.Now(), ctx: ctx, internal: true, depth: parent.depth + 1,
	}
	r := &dns.Msg{MsgHdr: dns.MsgHdr{Id: dns.Id(), RecursionDesired: true}, Question: []dns.Question{question}}
	if req != nil {
		r.CheckingDisabled = req.CheckingDisabled
	}
	parent.srv.dispatch(child, r)
	if child.reply == nil {
		return nil, errors.Join(fmt.Errorf("resolving %q: no answer", question.Name), child.err)
	}
	return child.reply, nil
}

var _ Resolver = Resolve
