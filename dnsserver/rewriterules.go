package dnsserver

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// maxRegex bounds the patterns of a configuration, as in CoreDNS.
const maxRegex = 10_000

// rewriteRule is a rule with its patterns compiled.
type rewriteRule struct {
	RewriteRule
	from  *regexp.Regexp // of MatchRegex
	edits []nameEdit
}

// compileRewrite checks a rule and compiles its patterns.
func compileRewrite(r RewriteRule) (*rewriteRule, error) {
	rule := &rewriteRule{RewriteRule: r}
	if err := rule.prepareMatch(); err != nil {
		return nil, err
	}
	for _, n := range r.AnswerNames {
		f, err := regexRewriter(n)
		if err != nil {
			return nil, err
		}
		rule.edits = append(rule.edits, nameEdit{names: f})
	}
	for _, n := range r.AnswerValues {
		f, err := regexRewriter(n)
		if err != nil {
			return nil, err
		}
		rule.edits = append(rule.edits, nameEdit{values: f})
	}
	switch {
	case r.AnswerAuto && len(r.AnswerNames) > 0:
		return nil, errors.New("answer auto and answer name: must be one of the two")
	case r.Field == RewriteTTL && r.MinTTL > r.MaxTTL:
		return nil, fmt.Errorf("ttl %d-%d: must be from low to high", r.MinTTL, r.MaxTTL)
	case r.Field > RewriteEDNS0 || r.Match > MatchRegex:
		return nil, fmt.Errorf("field %d, match %d: unknown", r.Field, r.Match)
	case r.Field == RewriteEDNS0:
		return rule, r.EDNS0.validate()
	}
	return rule, nil
}

// prepareMatch brings the names of a rule into the form that they are compared
// in.
func (r *rewriteRule) prepareMatch() error {
	switch r.Field {
	case RewriteType, RewriteClass, RewriteEDNS0:
		return nil
	case RewriteName, RewriteTTL, RewriteRcode, RewriteCNAME:
	}
	if r.From == "" {
		return errors.New("no name to match")
	}
	var err error
	switch r.Match {
	case MatchExact:
		r.From, r.To = dns.CanonicalName(r.From), dns.CanonicalName(r.To)
	case MatchSuffix:
		r.From, r.To = dns.CanonicalName(r.From), dns.CanonicalName(r.To)
	case MatchPrefix, MatchSubstring:
		r.From, r.To = strings.ToLower(r.From), strings.ToLower(r.To)
	case MatchRegex:
		r.from, err = compilePattern(r.From)
	}
	return err
}

// compilePattern compiles a regular expression of a configuration.
func compilePattern(text string) (*regexp.Regexp, error) {
	if len(text) > maxRegex {
		return nil, fmt.Errorf("pattern of %d characters: must have at most %d", len(text), maxRegex)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", text, err)
	}
	return re, nil
}

// regexRewriter returns the function that rewrites names; one that doesn't fit
// stays as it is.
func regexRewriter(n NameRewrite) (func(string) string, error) {
	re, err := compilePattern(n.From)
	if err != nil {
		return nil, err
	}
	return func(name string) string {
		groups := re.FindStringSubmatch(strings.ToLower(name))
		if groups == nil {
			return name
		}
		if to, ok := legalName(fillGroups(n.To, groups)); ok {
			return to
		}
		return name
	}, nil
}

// fillGroups puts what groups matched in place of {0}, {1}, …
func fillGroups(to string, groups []string) string {
	pairs := make([]string, 0, 2*len(groups))
	for i, g := range groups {
		pairs = append(pairs, "{"+strconv.Itoa(i)+"}", g)
	}
	return strings.NewReplacer(pairs...).Replace(to)
}

// legalName returns a name with its final dot, if it is one.
func legalName(name string) (string, bool) {
	if name == "" {
		return "", false
	}
	_, ok := dns.IsDomainName(name)
	return dns.Fqdn(name), ok
}

// matches reports whether the rule is for the name, which is in lower case.
func (r *rewriteRule) matches(name string) bool {
	switch r.Match {
	case MatchPrefix:
		return strings.HasPrefix(name, r.From)
	case MatchSuffix:
		return strings.HasSuffix(name, r.From)
	case MatchSubstring:
		return strings.Contains(name, r.From)
	case MatchRegex:
		return r.from.MatchString(name)
	default:
		return name == r.From
	}
}

// rename returns what the rule makes of a name in lower case, if it is for it.
func (r *rewriteRule) rename(name string) (string, bool) {
	if !r.matches(name) {
		return name, false
	}
	switch r.Match {
	case MatchPrefix:
		return r.To + strings.TrimPrefix(name, r.From), true
	case MatchSuffix:
		return strings.TrimSuffix(name, r.From) + r.To, true
	case MatchSubstring:
		return strings.ReplaceAll(name, r.From, r.To), true
	case MatchRegex:
		return dns.Fqdn(fillGroups(r.To, r.from.FindStringSubmatch(name))), true
	default:
		return r.To, true
	}
}

// errNotAName is a rewritten name that is none.
var errNotAName = errors.New("the new name is not a domain name")

// apply changes the query and notes what the reply needs; false if the rule is
// not for it.
func (r *rewriteRule) apply(p *rewritePass) (bool, error) {
	q := &p.req.Question[0]
	name := strings.ToLower(q.Name)
	switch r.Field {
	case RewriteName:
		return r.applyName(p, name)
	case RewriteType:
		if q.Qtype != r.FromCode {
			return false, nil
		}
		p.own().Question[0].Qtype = r.ToCode
		return true, nil
	case RewriteClass:
		if q.Qclass != r.FromCode {
			return false, nil
		}
		p.own().Question[0].Qclass = r.ToCode
		return true, nil
	case RewriteEDNS0:
		return r.EDNS0.apply(p), nil
	case RewriteCNAME:
		p.edits = append(p.edits, cnameEdit{r, q.Qtype})
		return true, nil
	case RewriteTTL, RewriteRcode:
	}
	if !r.matches(name) {
		return false, nil
	}
	if r.Field == RewriteTTL {
		p.edits = append(p.edits, ttlEdit{r.MinTTL, r.MaxTTL})
	} else {
		p.edits = append(p.edits, rcodeEdit{int(r.FromCode), int(r.ToCode)})
	}
	return true, nil
}

// applyName changes the name asked for.
func (r *rewriteRule) applyName(p *rewritePass, name string) (bool, error) {
	to, ok := r.rename(name)
	if !ok {
		return false, nil
	}
	if _, legal := legalName(to); !legal {
		return true, fmt.Errorf("%q: %w", to, errNotAName)
	}
	asked := p.req.Question[0].Name
	p.own().Question[0].Name = to
	for _, e := range r.edits {
		p.edits = append(p.edits, e)
	}
	if back := r.back(asked, to); back != nil {
		p.edits = append(p.edits, nameEdit{names: back, values: back})
	}
	return true, nil
}

// back returns what turns names of the reply into those that the client knows;
// nil when the rule doesn't want that. Names that have the suffix that a rule
// put there get the old one back.
func (r *rewriteRule) back(asked, to string) func(string) string {
	switch {
	case r.Match == MatchExact:
	case !r.AnswerAuto:
		return nil
	case r.Match == MatchSuffix:
		return func(name string) string {
			if strings.EqualFold(name, to) {
				return asked
			}
			if rest, ok := strings.CutSuffix(strings.ToLower(name), r.To); ok {
				return name[:len(rest)] + r.From
			}
			return name
		}
	}
	return func(name string) string {
		if strings.EqualFold(name, to) {
			return asked
		}
		return name
	}
}
