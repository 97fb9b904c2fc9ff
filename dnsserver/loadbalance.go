package dnsserver

import (
	"math/rand/v2"
	"slices"

	"github.com/miekg/dns"
)

// LoadBalanceConfig is CoreDNS's "loadbalance round_robin": the addresses of
// an answer come in random order, so that clients which take the first one
// spread over all (G10).
type LoadBalanceConfig struct {
	// SRV shuffles SRV records too, which CoreDNS doesn't. Their priority and
	// weight already tell clients how to choose; many don't look.
	SRV bool
}

// loadBalance shuffles the answers of the handlers after it.
func loadBalance(cfg *LoadBalanceConfig) middleware {
	if cfg == nil {
		return nil
	}
	return func(next dns.Handler) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			next.ServeDNS(&shuffler{wrapped{w}, cfg.SRV}, r)
		})
	}
}

// shuffler is the response writer of loadBalance.
type shuffler struct {
	wrapped
	srv bool
}

// WriteMsg shuffles a copy: the message may be shared with other queries.
func (s *shuffler) WriteMsg(m *dns.Msg) error {
	shuffled := *m
	shuffled.Answer = s.shuffle(m.Answer)
	shuffled.Extra = s.shuffle(m.Extra)
	return s.ResponseWriter.WriteMsg(&shuffled) //nolint:wrapcheck // only passes by
}

// shuffle reorders each RRset in its own place: a CNAME stays before what it
// leads to, and an RRset stays together for truncation. The records are
// copied when there is something to reorder.
func (s *shuffler) shuffle(rrs []dns.RR) []dns.RR {
	copied := false
	for start := 0; start < len(rrs); {
		end := start + 1
		for end < len(rrs) && sameSet(rrs[start], rrs[end]) {
			end++
		}
		if end-start > 1 && s.wants(rrs[start].Header().Rrtype) {
			if !copied {
				rrs, copied = slices.Clone(rrs), true
			}
			set := rrs[start:end]
			rand.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
		}
		start = end
	}
	return rrs
}

// wants reports whether records of the type are shuffled.
func (s *shuffler) wants(rrtype uint16) bool {
	switch rrtype {
	case dns.TypeA, dns.TypeAAAA, dns.TypeMX:
		return true
	case dns.TypeSRV:
		return s.srv
	}
	return false
}

// sameSet reports whether two records belong to one RRset.
func sameSet(a, b dns.RR) bool {
	x, y := a.Header(), b.Header()
	return x.Rrtype == y.Rrtype && x.Class == y.Class && x.Name == y.Name
}
