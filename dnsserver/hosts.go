package dnsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// HostsConfig is CoreDNS's "hosts": names and addresses as in /etc/hosts.
type HostsConfig struct {
	// File is read first; empty: none. One that isn't there is as good as an
	// empty one, until it comes.
	File string
	// Inline are lines of the same form. They add to the file's.
	Inline []string
	// Zones that it is for; empty: those of the block.
	Zones []string
	// TTL of the records in seconds; nil: 3600.
	TTL *uint32
	// NoReverse leaves the reverse names out.
	NoReverse bool
	// Reload is how often to look whether the file has changed; nil: 5 s,
	// 0: never.
	Reload *time.Duration
	// Fallthrough are the zones whose missing names go to the next handler;
	// "." is all.
	Fallthrough []string
	// FallthroughUnsupported hands queries of other types than A, AAAA and PTR
	// on too, within those zones.
	FallthroughUnsupported bool
}

// Defaults of hosts, CoreDNS's.
const (
	defaultHostsTTL    = 3600
	defaultHostsReload = 5 * time.Second
)

// hosts is the link of a HostsConfig.
type hosts struct {
	cfg     HostsConfig
	zones   []string
	through []string
	ttl     uint32
	reload  time.Duration
	metrics *linkMetrics
	log     *slog.Logger

	table  atomic.Pointer[hostsTable]
	mu     sync.Mutex // whoever looks at the file
	seen   fileState
	looked atomic.Int64 // when, in ns
}

// hosts makes the link.
func (s *Server) hosts(b *Block, log *slog.Logger) (middleware, error) {
	if b.Hosts == nil {
		return nil, nil
	}
	h := &hosts{
		cfg: *b.Hosts, zones: orZones(b.Hosts.Zones, b.Zones), through: canonicalNames(b.Hosts.Fallthrough),
		ttl: defaultHostsTTL, reload: defaultHostsReload, metrics: s.metrics.links, log: log,
	}
	if h.cfg.TTL != nil {
		h.ttl = *h.cfg.TTL
	}
	if h.cfg.Reload != nil {
		h.reload = *h.cfg.Reload
	}
	inline := newHostsTable()
	for _, line := range h.cfg.Inline {
		if err := inline.add(line); err != nil {
			return nil, fmt.Errorf("hosts: line %q: %w", line, err)
		}
	}
	if h.reload < 0 {
		return nil, fmt.Errorf("hosts: reload %v: must not be negative", h.reload)
	}
	if err := errors.Join(checkZones("hosts", h.cfg.Zones), checkZones("hosts", h.cfg.Fallthrough)); err != nil {
		return nil, err
	}
	h.table.Store(inline)
	h.look()
	return h.wrap, nil
}

// wrap is the middleware.
func (h *hosts) wrap(next dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := h.answer(r)
		if m == nil {
			next.ServeDNS(w, r)
			return
		}
		claim(w, answeredByHosts)
		if m.Rcode == dns.RcodeServerFailure {
			failQuery(w, r, fmt.Errorf("hosts: %q is not in the file, and nothing falls through", r.Question[0].Name))
			return
		}
		reply(w, m)
	})
}

// answer returns the reply, nil when the query is for the next handler. A name
// that is missing and doesn't fall through is SERVFAIL: without an SOA nobody
// could keep a denial.
func (h *hosts) answer(r *dns.Msg) *dns.Msg {
	h.refresh()
	q := r.Question[0]
	name, t := strings.ToLower(q.Name), h.table.Load()
	if q.Qtype == dns.TypePTR {
		if names := t.reverse(name); len(names) > 0 && !h.cfg.NoReverse {
			return h.message(r, pointerRecords(q.Name, h.ttl, names))
		}
		return nil
	}
	if _, ok := closestZone(name, h.zones); !ok {
		return nil
	}
	_, through := closestZone(name, h.through)
	addrs, exists := t.addrs(name)
	isAddress := q.Qtype == dns.TypeA || q.Qtype == dns.TypeAAAA
	switch {
	case through && (!exists || h.cfg.FallthroughUnsupported && !isAddress):
		return nil
	case !exists:
		return new(dns.Msg).SetRcode(r, dns.RcodeServerFailure)
	}
	return h.message(r, hostRecords(q, h.ttl, addrs))
}

// message makes an authoritative reply.
func (h *hosts) message(r *dns.Msg, answer []dns.RR) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	m.Authoritative, m.Answer = true, answer
	return m
}

// hostRecords makes the records of the type asked for.
func hostRecords(q dns.Question, ttl uint32, addrs []netip.Addr) []dns.RR {
	var rrs []dns.RR
	for _, a := range addrs {
		if a.Is4() == (q.Qtype == dns.TypeA) && (q.Qtype == dns.TypeA || q.Qtype == dns.TypeAAAA) {
			rrs = append(rrs, ipRecord(dns.RR_Header{Name: q.Name, Class: dns.ClassINET, Ttl: ttl}, a)...)
		}
	}
	return rrs
}

// pointerRecords makes PTR records.
func pointerRecords(owner string, ttl uint32, names []string) []dns.RR {
	rrs := make([]dns.RR, len(names))
	for i, n := range names {
		rrs[i] = &dns.PTR{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: ttl}, Ptr: n}
	}
	return rrs
}
