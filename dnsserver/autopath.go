package dnsserver

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// AutoPathConfig is CoreDNS's "autopath": of a query for a name with the first
// domain of the client's search path the server walks the rest of the path
// itself, and one query does for several (A4).
type AutoPathConfig struct {
	// Zones that it is for; empty: those of the block.
	Zones []string
	// ResolvConf is a file with the search path of all clients. Empty: each
	// pod has its own, by its namespace (@kubernetes).
	ResolvConf string
}

// hostResolvConf has the search path that pods inherit from their node.
const hostResolvConf = "/etc/resolv.conf"

// autopath is the link. It stands in front of acl and cache: each name on the
// path is asked for as if the client had, and the reply, which depends on who
// asks, is never kept.
type autopath struct {
	zones   []string
	cluster *Cluster
	// search is the fixed path; with a cluster the part behind the pod's own.
	search  []string
	metrics *linkMetrics
}

// autopath makes the link.
func (s *Server) autopath(b *Block) (middleware, error) {
	cfg := b.AutoPath
	if cfg == nil {
		return nil, nil
	}
	if err := checkZones("autopath", cfg.Zones); err != nil {
		return nil, err
	}
	a := &autopath{zones: orZones(cfg.Zones, b.Zones), metrics: s.metrics.links}
	if cfg.ResolvConf != "" {
		search, err := searchPath(cfg.ResolvConf)
		if err != nil {
			return nil, fmt.Errorf("autopath: %w", err)
		}
		if len(search) == 0 {
			return nil, fmt.Errorf("autopath: %q: must have a search path", cfg.ResolvConf)
		}
		a.search = search
		return a.wrap, nil
	}
	if b.Cluster == nil {
		return nil, errors.New("autopath: @kubernetes: must have kubernetes in the same block")
	}
	if b.Cluster.conf.Pods != PodsVerified {
		return nil, errors.New("autopath: @kubernetes: must have pods verified in kubernetes, to know who asks")
	}
	a.cluster = b.Cluster
	a.search, _ = searchPath(hostResolvConf) // a machine without has none
	return a.wrap, nil
}

// searchPath reads the search domains of a resolv.conf.
func searchPath(file string) ([]string, error) {
	conf, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the search path: %w", err)
	}
	return canonicalNames(conf.Search), nil
}

// wrap is the middleware.
func (a *autopath) wrap(next dns.Handler) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		q := r.Question[0]
		name := strings.ToLower(q.Name)
		if _, ok := closestZone(name, a.zones); !ok || q.Qclass != dns.ClassINET || internalQuery(w) {
			next.ServeDNS(w, r)
			return
		}
		search := a.path(name, clientOf(w).Addr())
		if len(search) == 0 || !dns.IsSubDomain(search[0], name) || name == search[0] {
			next.ServeDNS(w, r)
			return
		}
		base := q.Name[:len(q.Name)-len(search[0])]
		a.walk(w, r, next, base, search)
	})
}

// internalQuery reports whether the server itself asks: then nobody's search
// path applies.
func internalQuery(w dns.ResponseWriter) bool {
	q := queryOf(w)
	return q != nil && q.internal
}

// path returns the client's search path, nil if that isn't known for sure.
func (a *autopath) path(name string, client netip.Addr) []string {
	if a.cluster == nil {
		return a.search
	}
	v := a.cluster.view.Load()
	var q queryName
	if !q.parse(name) {
		return nil
	}
	zone := v.conf.zoneOf(&q)
	pod := v.soleOwner(client)
	if zone == nil || zone.reverse || zone.multicluster || pod == "" {
		return nil
	}
	suffix := strings.TrimPrefix(zone.name, ".")
	return append([]string{pod + ".svc." + suffix, "svc." + suffix, zone.name}, a.search...)
}

// soleOwner returns the namespace of the one pod that has the address to
// itself: alive, not on the node's network, and no other pod claims the
// address that isn't finished. Whoever doesn't fit is not known, and gets what
// he asked for and nothing else (A44).
func (v *view) soleOwner(addr netip.Addr) string {
	owner := ""
	for _, k := range v.snap.PodsAt(addr) {
		pod, ok := v.snap.Pods.Get(k)
		finished := ok && (pod.Phase == "Succeeded" || pod.Phase == "Failed")
		switch {
		case !ok || finished && !pod.HostNetwork:
			continue // its address may be another's by now
		case pod.HostNetwork || !pod.Live() || owner != "" || !v.conf.namesPod(pod) || !v.conf.visible(v.snap, k.Namespace):
			return ""
		}
		owner = k.Namespace
	}
	return owner
}

// walk asks for the name with each domain of the path, then without any, and
// replies with the first that exists. If none does, the client gets the reply
// to what he asked for.
func (a *autopath) walk(w dns.ResponseWriter, r *dns.Msg, next dns.Handler, base string, search []string) {
	first := askNext(next, w, r)
	if first == nil {
		return
	}
	if first.Rcode != dns.RcodeNameError {
		reply(w, first)
		return
	}
	kept := r.Question[0].Name
	for _, domain := range append(slices.Clone(search[1:]), ".") {
		name := base + strings.TrimPrefix(domain, ".")
		if _, ok := dns.IsDomainName(name); !ok {
			continue
		}
		ask := r.Copy()
		ask.Question[0].Name = name
		m := askNext(next, w, ask)
		if m == nil || m.Rcode == dns.RcodeNameError {
			continue
		}
		if m.Rcode != dns.RcodeSuccess {
			break // not to be taken for a better answer
		}
		server := queryOf(w).serverLabel()
		a.metrics.autopath.WithLabelValues(server).Inc()
		reply(w, aliased(r, m, kept, name))
		return
	}
	if q := queryOf(w); q != nil {
		q.err = nil // what failed on the way isn't what was asked
		q.ede = nil
	}
	reply(w, first)
}

// aliased makes a reply to name one to the question asked, by an alias.
func aliased(r, m *dns.Msg, asked, name string) *dns.Msg {
	out := *m
	out.Question = r.Question
	var ttl uint32
	if len(m.Answer) > 0 {
		ttl = m.Answer[0].Header().Ttl
	} else {
		ttl = negativeTTL(m)
	}
	cname := &dns.CNAME{
		Hdr:    dns.RR_Header{Name: asked, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: ttl},
		Target: name,
	}
	out.Answer = append([]dns.RR{cname}, m.Answer...)
	return &out
}
