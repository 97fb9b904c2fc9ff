package dnsserver

import (
	"log/slog"

	"github.com/miekg/dns"
)

// logErrors writes one line for each query that failed on our side, with the
// reason where a handler left one (CoreDNS's errors plugin).
func errorLog(b *Block, log *slog.Logger, life *lifetime) (middleware, error) {
	if !b.Errors {
		return nil, nil
	}
	c, err := newConsolidator(b.Consolidate, log)
	if err != nil {
		return nil, err
	}
	life.add(nil, c.close)
	return logErrors(c), nil
}

// logErrors is errorLog's middleware.
func logErrors(c *consolidator) middleware {
	return func(next dns.Handler) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			next.ServeDNS(w, r)
			q := queryOf(w)
			if q == nil || q.internal || q.err == nil && q.rcode != dns.RcodeServerFailure {
				return
			}
			question := r.Question[0]
			attrs := []any{
				"name", question.Name, "type", dns.Type(question.Qtype).String(),
				"rcode", rcodeLabel(q.rcode), "plugin", q.handler.String(),
			}
			if q.err != nil {
				if c.takes(q.err.Error()) {
					return
				}
				attrs = append(attrs, "err", q.err)
			}
			c.log.Error("answering query failed", attrs...)
		})
	}
}

// failQuery answers SERVFAIL and leaves the reason for the error log.
func failQuery(w dns.ResponseWriter, r *dns.Msg, reason error) {
	if q := queryOf(w); q != nil {
		q.err = reason
	}
	m := new(dns.Msg)
	m.SetRcode(r, dns.RcodeServerFailure)
	_ = w.WriteMsg(m) // the query has recorded what went wrong
}
