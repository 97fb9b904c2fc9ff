package dnsserver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// RewriteField is the part of a query or a reply that a rewrite rule changes.
type RewriteField uint8

// The fields of CoreDNS's rewrite.
const (
	// RewriteName changes the name asked for.
	RewriteName RewriteField = iota
	// RewriteType changes the type asked for.
	RewriteType
	// RewriteClass changes the class asked for.
	RewriteClass
	// RewriteTTL changes the TTLs of the reply.
	RewriteTTL
	// RewriteRcode changes the reply's code.
	RewriteRcode
	// RewriteCNAME changes what an alias in the reply leads to.
	RewriteCNAME
	// RewriteEDNS0 changes an option of the query's OPT record.
	RewriteEDNS0
)

// RewriteMatch is how a rule's name is compared with the query's.
type RewriteMatch uint8

// The matches of CoreDNS's rewrite. Case doesn't matter.
const (
	// MatchExact is the whole name.
	MatchExact RewriteMatch = iota
	// MatchPrefix is how it begins.
	MatchPrefix
	// MatchSuffix is how it ends.
	MatchSuffix
	// MatchSubstring is anything in it.
	MatchSubstring
	// MatchRegex is a regular expression; {1} in the replacement is its first
	// group.
	MatchRegex
)

// RewriteRule is one rule of CoreDNS's "rewrite". What a query is changed by is
// undone in the reply as far as the rule says so; an exact name always is.
type RewriteRule struct {
	Field RewriteField
	// Continue goes on with the next rule after this one; otherwise it is the
	// last.
	Continue bool

	// Match and From say which queries the rule is for, by their name; To is
	// the new name. Of RewriteCNAME they are about the alias's target.
	Match    RewriteMatch
	From, To string
	// AnswerAuto turns the new name back into the old one in the reply.
	AnswerAuto bool
	// AnswerNames and AnswerValues change owner names, and names in the data of
	// records, by regular expressions.
	AnswerNames, AnswerValues []NameRewrite

	// FromCode and ToCode are types, classes or rcodes.
	FromCode, ToCode uint16
	// MinTTL and MaxTTL bound the TTLs of the reply in seconds.
	MinTTL, MaxTTL uint32
	EDNS0          EDNS0Rewrite
}

// NameRewrite is a regular expression and what to make of a name that it fits.
type NameRewrite struct{ From, To string }

// rewrite makes the link of the block's rules.
func (s *Server) rewrite(b *Block) (middleware, error) {
	if len(b.Rewrites) == 0 {
		return nil, nil
	}
	rules := make([]*rewriteRule, len(b.Rewrites))
	for i, r := range b.Rewrites {
		compiled, err := compileRewrite(r)
		if err != nil {
			return nil, fmt.Errorf("rewrite: %w", err)
		}
		rules[i] = compiled
	}
	return func(next dns.Handler) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) { rewriteQuery(rules, w, r, next) })
	}, nil
}

// rewriteQuery applies the rules and hands the query on.
func rewriteQuery(rules []*rewriteRule, w dns.ResponseWriter, r *dns.Msg, next dns.Handler) {
	pass := rewritePass{w: w, req: r}
	for _, rule := range rules {
		matched, err := rule.apply(&pass)
		if err != nil {
			failQuery(w, r, fmt.Errorf("rewriting %q: %w", r.Question[0].Name, err))
			return
		}
		if matched && !rule.Continue {
			break
		}
	}
	if len(pass.edits) == 0 {
		next.ServeDNS(w, pass.req)
		return
	}
	next.ServeDNS(&rewriter{wrapped{w}, r, pass.edits}, pass.req)
}

// rewritePass is a query on its way through the rules.
type rewritePass struct {
	w dns.ResponseWriter
	// req is the client's request until a rule changes it, then a copy.
	req    *dns.Msg
	copied bool
	// edits are to be done to the reply, the last one first.
	edits []replyEdit
}

// own returns a request that may be changed.
func (p *rewritePass) own() *dns.Msg {
	if !p.copied {
		p.req, p.copied = p.req.Copy(), true
	}
	return p.req
}

// replyEdit changes a reply whose records are copies.
type replyEdit interface {
	edit(w dns.ResponseWriter, m *dns.Msg)
}

// rewriter is the response writer that undoes rewrites.
type rewriter struct {
	wrapped
	req   *dns.Msg // as the client sent it
	edits []replyEdit
}

// WriteMsg implements [dns.ResponseWriter]. The message may be shared: it is
// copied.
func (w *rewriter) WriteMsg(m *dns.Msg) error {
	m = m.Copy()
	m.Question = w.req.Question
	for _, e := range slices.Backward(w.edits) {
		e.edit(w.ResponseWriter, m)
	}
	return w.ResponseWriter.WriteMsg(m) //nolint:wrapcheck // only passes by
}

// eachRecord runs f on the records of all sections but OPT.
func eachRecord(m *dns.Msg, f func(dns.RR)) {
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if rr.Header().Rrtype != dns.TypeOPT {
				f(rr)
			}
		}
	}
}

// nameEdit changes owner names and, if values is set, names in data.
type nameEdit struct {
	names, values func(string) string
}

func (e nameEdit) edit(_ dns.ResponseWriter, m *dns.Msg) {
	eachRecord(m, func(rr dns.RR) {
		if e.names != nil {
			rr.Header().Name = e.names(rr.Header().Name)
		}
		if name := nameInData(rr); e.values != nil && name != nil {
			*name = e.values(*name)
		}
	})
}

// nameInData is the name in a record's data that a rewrite may change; nil if
// there is none.
func nameInData(rr dns.RR) *string {
	switch rr := rr.(type) {
	case *dns.CNAME:
		return &rr.Target
	case *dns.DNAME:
		return &rr.Target
	case *dns.SOA:
		return &rr.Ns
	case *dns.SRV:
		return &rr.Target
	case *dns.MX:
		return &rr.Mx
	case *dns.NAPTR:
		return &rr.Replacement
	case *dns.NS:
		return &rr.Ns
	case *dns.PTR:
		return &rr.Ptr
	}
	return nil
}

// ttlEdit keeps TTLs within bounds.
type ttlEdit struct{ low, high uint32 }

func (e ttlEdit) edit(_ dns.ResponseWriter, m *dns.Msg) {
	eachRecord(m, func(rr dns.RR) { rr.Header().Ttl = max(e.low, min(rr.Header().Ttl, e.high)) })
}

// rcodeEdit turns one code into another.
type rcodeEdit struct{ from, to int }

func (e rcodeEdit) edit(_ dns.ResponseWriter, m *dns.Msg) {
	if m.Rcode == e.from {
		m.Rcode = e.to
	}
}

// cnameEdit gives an alias another target, and the reply that target's
// records in place of the old one's.
type cnameEdit struct {
	rule  *rewriteRule
	qtype uint16
}

func (e cnameEdit) edit(w dns.ResponseWriter, m *dns.Msg) {
	for i, rr := range m.Answer {
		cname, ok := rr.(*dns.CNAME)
		if !ok {
			continue
		}
		target, ok := e.rule.rename(strings.ToLower(cname.Target))
		if !ok {
			continue
		}
		cname.Target = target
		m.Answer = m.Answer[:i+1]
		if e.qtype == dns.TypeCNAME {
			return
		}
		m.Ns, m.Extra = nil, nil
		got, err := Resolve(queryContext(w), dns.Question{Name: target, Qtype: e.qtype, Qclass: dns.ClassINET}, m)
		if err != nil {
			failReply(m)
			return
		}
		m.Rcode, m.Answer, m.Ns = got.Rcode, append(m.Answer, got.Answer...), got.Ns
		return
	}
}
