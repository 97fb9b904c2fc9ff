package dnsserver

import (
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
}

// build validates the configuration and makes what each address serves.
func (s *Server) build(cfg Config) (plan, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := plan{}
	var errs []error
	for i := range cfg.Blocks {
		b := &cfg.Blocks[i]
		handler, failed := s.chain(b, cfg)
		for _, err := range failed {
			errs = append(errs, fmt.Errorf("block %q: %w", strings.Join(b.Zones, " "), err))
		}
		for _, addr := range b.Listen {
			ap, _ := splitListen(addr) // checked by validate
			addr = listenString(ap)
			sv := p[addr]
			if sv == nil {
				sv = s.newServing(addr, cfg)
				p[addr] = sv
			}
			s.addRoutes(sv, b, handler)
		}
	}
	for _, sv := range p {
		sv.fast = newFastRoutes(sv.routes)
	}
	return p, errors.Join(errs...)
}

// newServing makes the empty table of an address.
func (s *Server) newServing(addr string, cfg Config) *serving {
	label := "dns://" + addr
	return &serving{
		cfg: cfg, label: label, routes: map[string]*route{},
		refused: s.metrics.block(label, droppedZone),
	}
}

// addRoutes adds the block's zones.
func (s *Server) addRoutes(sv *serving, b *Block, handler dns.Handler) {
	fast := newFastBlock(b, nil)
	for _, zone := range b.Zones {
		zone = dns.CanonicalName(zone)
		r := &route{
			zone: zone, handler: handler, fast: fast, recursion: len(b.Forwards) > 0,
			udpSize: orDefault(b.MaxUDPSize, sv.cfg.MaxUDPSize),
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
