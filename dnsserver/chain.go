package dnsserver

import (
	"cmp"
	"slices"

	"github.com/miekg/dns"
)

// answerer names a handler that can answer; metrics show it as CoreDNS's label
// plugin.
type answerer uint8

const (
	answeredByNone answerer = iota
	answeredByCluster
	answeredByForward
	numAnswerers
)

// String returns CoreDNS's name of the plugin that does the same.
func (a answerer) String() string {
	return [numAnswerers]string{"", "kubernetes", "forward"}[a]
}

// middleware wraps the handler that comes after it.
type middleware = func(next dns.Handler) dns.Handler

// chain builds the handlers of a block. The order is that of CoreDNS's
// plugins and doesn't depend on the Corefile; a nil link is off. Whoever adds
// a feature adds one line here.
func (s *Server) chain(b *Block, cfg Config) (dns.Handler, []error) {
	forwards, errs := s.forwards(b, cfg)
	links := []middleware{
		when(b.Errors, logErrors(cfg.Log)),
		queryLog(b.Log, cfg.Log),
		loadBalance(b.LoadBalance),
		refuseTransfer,
		s.cluster(b.Cluster),
	}
	links = append(links, forwards...)
	return stack(append(links, answering(answeredByNone, refuseAll))), errs
}

// stack puts the links around each other, the first outermost.
func stack(links []middleware) dns.Handler {
	var h dns.Handler
	for _, link := range slices.Backward(links) {
		if link != nil {
			h = link(h)
		}
	}
	return h
}

// when returns the middleware if it is wanted.
func when(wanted bool, m middleware) middleware {
	if !wanted {
		return nil
	}
	return m
}

// answering notes on the query that it has come as far as this handler: the
// one that it came to last has answered.
func answering(who answerer, m middleware) middleware {
	return func(next dns.Handler) dns.Handler {
		h := m(next)
		return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			if q := queryOf(w); q != nil {
				q.handler = who
			}
			h.ServeDNS(w, r)
		})
	}
}

// cluster is the cluster zone's link.
func (s *Server) cluster(c *Cluster) middleware {
	if c == nil {
		return nil
	}
	return answering(answeredByCluster, c.Middleware)
}

// forwards makes a link for each forward, the longest From first: the one
// that fits best takes the query (F2).
func (s *Server) forwards(b *Block, cfg Config) ([]middleware, []error) {
	sorted := slices.Clone(b.Forwards)
	slices.SortStableFunc(sorted, func(x, y ForwardConfig) int {
		return cmp.Compare(dns.CountLabel(dns.Fqdn(y.From)), dns.CountLabel(dns.Fqdn(x.From)))
	})
	links := make([]middleware, 0, len(sorted))
	var errs []error
	for _, fc := range sorted {
		f, err := newForward(fc, cfg, s.metrics)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		links = append(links, answering(answeredByForward, f.wrap))
	}
	return links, errs
}

// refuseTransfer refuses AXFR and IXFR over any transport (W25).
func refuseTransfer(next dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		switch r.Question[0].Qtype {
		case dns.TypeAXFR, dns.TypeIXFR:
			refuse(w, r)
		default:
			next.ServeDNS(w, r)
		}
	})
}

// refuseAll is the end of every chain: nobody here answers for the name (T12).
func refuseAll(dns.Handler) dns.Handler { return dns.HandlerFunc(refuse) }

// refuse replies REFUSED.
func refuse(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg)
	m.SetRcode(r, dns.RcodeRefused)
	_ = w.WriteMsg(m) // the query has recorded what went wrong
}
