package dnsserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// plan maps each listening address, as configured, to what is served there.
type plan map[string]*serving

// serving is what one listening address serves at a moment. It is immutable; a
// reload swaps the whole.
type serving struct {
	cfg Config
	// label is the address as CoreDNS's metrics show it.
	label string
	// routes by zone, in canonical form.
	routes map[string]*route
	// fast is routes for the fast path.
	fast *fastRoutes
	// refused counts queries outside all zones.
	refused *counters
	// tls is for the connections of DoT and DoH.
	tls *tls.Config
	// otherClasses is set where a block has something to say about classes
	// other than IN (W10).
	otherClasses bool
}

// route is one zone of a block at one listening address.
type route struct {
	zone    string
	handler dns.Handler
	// fast is nil where the handler has to be asked in any case.
	fast *fastBlock
	// recursion is set where the block forwards: RA in every answer (G2).
	recursion bool
	udpSize   uint16
	// counters is nil unless the block has metrics on.
	counters *counters
	// cacheCounts is nil unless there is a cache.
	cacheCounts *cacheCounters
}

// build validates the configuration and makes what each address serves.
func (s *Server) build(cfg Config) (plan, *lifetime, error) {
	if err := cfg.validate(); err != nil {
		return nil, nil, err
	}
	p, life := plan{}, newLifetime()
	var errs []error
	for i := range cfg.Blocks {
		b := &cfg.Blocks[i]
		c := s.newCache(b, life)
		handler, failed := s.chain(b, cfg, c, life)
		for _, err := range failed {
			errs = append(errs, fmt.Errorf("block %q: %w", strings.Join(b.Zones, " "), err))
		}
		for _, addr := range b.Listen {
			ap, _ := splitListen(addr) // checked by validate
			key := listenKey(b.Transport, ap)
			sv := p[key]
			if sv == nil {
				sv = s.newServing(serverLabel(b.Transport, ap), cfg)
				p[key] = sv
			}
			sv.admit(b)
			s.addRoutes(sv, b, handler, c)
		}
	}
	for _, sv := range p {
		sv.fast = newFastRoutes(sv.routes)
	}
	return p, life, errors.Join(errs...)
}

// newServing makes the empty table of an address.
func (s *Server) newServing(label string, cfg Config) *serving {
	return &serving{
		cfg: cfg, label: label, routes: map[string]*route{},
		refused: s.metrics.block(label, droppedZone),
	}
}

// addRoutes adds the block's zones.
func (s *Server) addRoutes(sv *serving, b *Block, handler dns.Handler, c *cache) {
	fast := newFastBlock(b, c.fast())
	for _, zone := range b.Zones {
		zone = dns.CanonicalName(zone)
		r := &route{
			zone: zone, handler: handler, fast: fast, recursion: len(b.Forwards) > 0,
			udpSize: orDefault(b.MaxUDPSize, sv.cfg.MaxUDPSize),
		}
		if b.Cache != nil {
			r.cacheCounts = s.metrics.cache(sv.label, b.cacheZones())
		}
		if b.Metrics {
			r.counters = s.metrics.block(sv.label, zone)
		}
		sv.routes[zone] = r
	}
}

// match returns the route of the most specific zone that holds name, nil if
// there is none. The name is in presentation form and of any case.
func (sv *serving) match(name string) *route {
	name = dns.CanonicalName(name)
	for off, end := 0, false; !end; off, end = dns.NextLabel(name, off) {
		if r, ok := sv.routes[name[off:]]; ok {
			return r
		}
	}
	return sv.routes["."]
}
