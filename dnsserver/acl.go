package dnsserver

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// ACLAction is what an access rule does with a query.
type ACLAction uint8

// The actions of CoreDNS's acl.
const (
	// ACLAllow answers it.
	ACLAllow ACLAction = iota
	// ACLBlock refuses it, with the extended error Blocked (RFC 8914).
	ACLBlock
	// ACLFilter says that there is no such data.
	ACLFilter
	// ACLDrop says nothing.
	ACLDrop
)

// ACLRule is one acl directive: who may ask for what in some zones. The first
// policy that fits decides; if none does, the next rule for the name.
type ACLRule struct {
	// Zones that the rule is for; empty: those of the block.
	Zones    []string
	Policies []ACLPolicy
}

// ACLPolicy is one line of a rule.
type ACLPolicy struct {
	Action ACLAction
	// Types are query types; empty: all.
	Types []uint16
	// Nets are the clients' networks; empty: all.
	Nets []netip.Prefix
}

// fits reports whether the policy is about such a query.
func (p *ACLPolicy) fits(qtype uint16, from netip.Addr) bool {
	return (len(p.Types) == 0 || slices.Contains(p.Types, qtype)) &&
		(len(p.Nets) == 0 || slices.ContainsFunc(p.Nets, func(n netip.Prefix) bool { return n.Contains(from) }))
}

// acl enforces the block's access rules. It stands in front of the cache, so
// that nobody gets from there what others were allowed to ask for, and behind
// everything that changes the name or asks for others, so that no name gets
// around it (CVE-2026-26017, F7).
func (s *Server) acl(b *Block) (middleware, error) {
	if len(b.ACL) == 0 {
		return nil, nil
	}
	rules := slices.Clone(b.ACL)
	for i := range rules {
		if err := checkZones("acl", rules[i].Zones); err != nil {
			return nil, err
		}
		for _, p := range rules[i].Policies {
			if p.Action > ACLDrop {
				return nil, fmt.Errorf("acl: action %d: must be allow, block, filter or drop", p.Action)
			}
		}
		rules[i].Zones = orZones(rules[i].Zones, b.Zones)
	}
	return func(next dns.Handler) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			action, zone := judge(rules, r.Question[0], clientOf(w).Addr())
			s.enforce(action, zone, w, r, next)
		})
	}, nil
}

// judge finds the first policy that fits.
func judge(rules []ACLRule, q dns.Question, from netip.Addr) (action ACLAction, zone string) {
	for i := range rules {
		zone, ok := closestZone(q.Name, rules[i].Zones)
		if !ok {
			continue
		}
		for j := range rules[i].Policies {
			if p := &rules[i].Policies[j]; p.fits(q.Qtype, from) {
				return p.Action, zone
			}
		}
	}
	return ACLAllow, ""
}

// enforce does what a policy says, and counts it.
func (s *Server) enforce(action ACLAction, zone string, w dns.ResponseWriter, r *dns.Msg, next dns.Handler) {
	q := queryOf(w)
	server := q.serverLabel()
	if action == ACLAllow {
		s.metrics.links.aclAllowed.WithLabelValues(server, "").Inc()
		next.ServeDNS(w, r)
		return
	}
	claim(w, answeredByACL)
	m := new(dns.Msg).SetReply(r)
	switch action {
	case ACLBlock:
		s.metrics.links.aclBlocked.WithLabelValues(server, zone, "").Inc()
		m.Rcode = dns.RcodeRefused
		explain(w, dns.ExtendedErrorCodeBlocked, "")
		reply(w, m)
	case ACLFilter:
		s.metrics.links.aclFiltered.WithLabelValues(server, zone, "").Inc()
		explain(w, dns.ExtendedErrorCodeFiltered, "")
		reply(w, m)
	default:
		s.metrics.links.aclDropped.WithLabelValues(server, zone, "").Inc()
	}
}

// explain adds an extended error to the reply (RFC 8914); clients that use
// EDNS see it.
func explain(w dns.ResponseWriter, code uint16, text string) {
	if q := queryOf(w); q != nil {
		q.ede = &extendedError{code: code, text: text}
	}
}
