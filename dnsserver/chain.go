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
	answeredByCache
	answeredByACL
	answeredByAny
	answeredByHosts
	answeredByLocal
	answeredByRateLimit
	answeredByTemplate
	answeredByTransfer
	answeredByWhoami
	numAnswerers
)

// String returns CoreDNS's name of the plugin that does the same.
func (a answerer) String() string {
	return [numAnswerers]string{
		"", "kubernetes", "forward", "cache",
		"acl", "any", "hosts", "local", "ratelimit", "template", "transfer", "whoami",
	}[a]
}

// middleware wraps the handler that comes after it.
type middleware = func(next dns.Handler) dns.Handler

// chain builds the handlers of a block. The order is that of CoreDNS's
// plugins and doesn't depend on the Corefile; a nil link is off. Whoever adds
// a feature adds one line here.
//
// The cache comes last but for those who ask others: what this server knows
// itself is never kept in it, nor what depends on who asks.
func (s *Server) chain(b *Block, cfg Config, c *cache, life *lifetime) (dns.Handler, []error) {
	forwards, errs := s.forwards(b, cfg, life)
	made := built{errs: errs}
	links := []middleware{
		made.link(errorLog(b, cfg.Log, life)),
		queryLog(b.Logs, cfg.Log),
		made.link(s.rateLimit(b.RateLimit)),
		s.local(b.Local),
		made.link(s.dns64(b.DNS64)),
		when(b.MinimalANY, minimalANY),
		loadBalance(b.LoadBalance),
		made.link(s.rewrite(b)),
		made.link(s.autopath(b)),
		made.link(s.acl(b)),
		when(b.Minimal, minimalReplies),
		made.link(s.templates(b)),
		refuseOtherClasses,
		made.link(s.transfer(b)),
		made.link(s.hosts(b, cfg.Log)),
		s.cluster(b.Cluster),
		s.loop(b, cfg, life),
		c.link(),
	}
	links = append(links, forwards...)
	links = append(links, when(b.Whoami, answering(answeredByWhoami, whoami)))
	return stack(append(links, answering(answeredByNone, refuseAll))), made.errs
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
func (s *Server) forwards(b *Block, cfg Config, life *lifetime) ([]middleware, []error) {
	sorted := slices.Clone(b.Forwards)
	slices.SortStableFunc(sorted, func(x, y ForwardConfig) int {
		return cmp.Compare(dns.CountLabel(dns.Fqdn(y.From)), dns.CountLabel(dns.Fqdn(x.From)))
	})
	links := make([]middleware, 0, len(sorted))
	var all []*forward
	var errs []error
	for _, fc := range sorted {
		f, err := newForward(fc, cfg, s.metrics)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		life.add(f.begin, f.end)
		all = append(all, f)
		links = append(links, answering(answeredByForward, f.wrap))
	}
	for i, f := range all {
		f.rest = all[i+1:]
	}
	return links, errs
}

// refuseOtherClasses refuses what is not about the Internet, unless a rewrite or a
// template has dealt with it (W10).
func refuseOtherClasses(next dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if r.Question[0].Qclass != dns.ClassINET {
			refuse(w, r)
			return
		}
		next.ServeDNS(w, r)
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
