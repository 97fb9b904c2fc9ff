package dnsserver

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"github.com/miekg/dns"
)

// TemplateConfig is one of CoreDNS's "template" directives: replies written
// down as text templates.
type TemplateConfig struct {
	// Class and Type are those of the query that it is for; ANY is all.
	Class, Type uint16
	// Zones that it is for; empty: those of the block.
	Zones []string
	// Match are regular expressions for the name in lower case, one of which
	// has to fit; empty: any name.
	Match []string
	// Answer, Authority and Additional are records in presentation format,
	// after text/template; see [TemplateData] for what they may use.
	Answer, Authority, Additional []string
	// Rcode of the reply.
	Rcode int
	// Error is the extended error of the reply; nil: none.
	Error *ExtendedError
	// Fallthrough are the zones in which names that don't fit go to the next
	// template or handler; elsewhere they are SERVFAIL.
	Fallthrough []string
}

// ExtendedError says more about a failure than an rcode (RFC 8914).
type ExtendedError struct {
	Code uint16
	Text string
}

// TemplateData is what templates may use, with CoreDNS's names.
type TemplateData struct {
	Zone     string            // the zone that fits, "example."
	Name     string            // the name asked for, in lower case
	Regex    string            // the expression that fits
	Match    []string          // what it and its groups matched
	Group    map[string]string // the same by the groups' names and numbers
	Class    string            // of the query, "IN"
	Type     string            // of the query, "A"
	Message  *dns.Msg          // the query
	Question *dns.Question
	Remote   string // the client's address
}

// Meta is empty: this server has no metadata.
func (*TemplateData) Meta(string) string { return "" }

// zoneTemplate is a template that is ready for use.
type zoneTemplate struct {
	TemplateConfig
	regexes  []*regexp.Regexp
	sections [3]templateSection
}

// templateSection is what fills one section of the reply.
type templateSection struct {
	name    string
	records []*template.Template
}

// templateFunctions are CoreDNS's.
var templateFunctions = template.FuncMap{"parseInt": strconv.ParseUint}

// templates makes the link of the block's templates.
func (s *Server) templates(b *Block) (middleware, error) {
	if len(b.Templates) == 0 {
		return nil, nil
	}
	all := make([]*zoneTemplate, len(b.Templates))
	var errs []error
	for i, cfg := range b.Templates {
		t, err := compileTemplate(cfg, b.Zones)
		if err != nil {
			errs = append(errs, fmt.Errorf("template: %w", err))
		}
		all[i] = t
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return func(next dns.Handler) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			if !s.serveTemplates(all, w, r) {
				next.ServeDNS(w, r)
			}
		})
	}, nil
}

// compileTemplate compiles a template's expressions.
func compileTemplate(cfg TemplateConfig, zones []string) (*zoneTemplate, error) {
	if err := errors.Join(checkZones("zones", cfg.Zones), checkZones("fallthrough", cfg.Fallthrough)); err != nil {
		return nil, err
	}
	t := &zoneTemplate{TemplateConfig: cfg}
	t.Zones, t.Fallthrough = orZones(cfg.Zones, zones), canonicalNames(cfg.Fallthrough)
	if len(cfg.Match) == 0 {
		cfg.Match = []string{".*"}
	}
	for _, m := range cfg.Match {
		re, err := compilePattern(m)
		if err != nil {
			return nil, err
		}
		t.regexes = append(t.regexes, re)
	}
	for i, section := range []struct {
		name  string
		texts []string
	}{{"answer", cfg.Answer}, {"authority", cfg.Authority}, {"additional", cfg.Additional}} {
		t.sections[i].name = section.name
		for _, text := range section.texts {
			parsed, err := template.New(text).Funcs(templateFunctions).Parse(text)
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", section.name, text, err)
			}
			t.sections[i].records = append(t.sections[i].records, parsed)
		}
	}
	return t, nil
}

// serveTemplates answers with the first template that fits; false leaves the
// query to the next handler.
func (s *Server) serveTemplates(all []*zoneTemplate, w dns.ResponseWriter, r *dns.Msg) bool {
	for _, t := range all {
		data, fits, through := t.match(w, r)
		if through {
			continue
		}
		claim(w, answeredByTemplate)
		if !fits {
			failQuery(w, r, fmt.Errorf("template: %q fits no expression, and nothing falls through", r.Question[0].Name))
			return true
		}
		s.serveTemplate(t, data, w, r)
		return true
	}
	return false
}

// match looks whether the template is for the query; through means that the
// next one is to be asked.
func (t *zoneTemplate) match(w dns.ResponseWriter, r *dns.Msg) (data *TemplateData, fits, through bool) {
	q := &r.Question[0]
	name := strings.ToLower(q.Name)
	zone, ok := closestZone(name, t.Zones)
	if !ok || t.Class != dns.ClassANY && t.Class != q.Qclass || t.Type != dns.TypeANY && t.Type != q.Qtype {
		return nil, false, true
	}
	for _, re := range t.regexes {
		if groups := re.FindStringSubmatch(name); groups != nil {
			return &TemplateData{
				Zone: zone, Name: name, Regex: re.String(), Match: groups, Group: namedGroups(re, groups),
				Class: dns.Class(q.Qclass).String(), Type: dns.Type(q.Qtype).String(),
				Message: r, Question: q, Remote: clientOf(w).Addr().String(),
			}, true, false
		}
	}
	_, through = closestZone(name, t.Fallthrough)
	return nil, false, through
}

// namedGroups gives groups their names and their numbers.
func namedGroups(re *regexp.Regexp, groups []string) map[string]string {
	named := make(map[string]string, 2*len(groups))
	for i, g := range groups {
		named[strconv.Itoa(i)] = g
		if n := re.SubexpNames()[i]; n != "" {
			named[n] = g
		}
	}
	return named
}

// serveTemplate fills the template in and replies.
func (s *Server) serveTemplate(t *zoneTemplate, data *TemplateData, w dns.ResponseWriter, r *dns.Msg) {
	server := queryOf(w).serverLabel()
	s.metrics.links.templateMatches.WithLabelValues(server, data.Zone, "", data.Class, data.Type).Inc()
	m := new(dns.Msg).SetRcode(r, t.Rcode)
	m.Authoritative = t.Rcode != dns.RcodeServerFailure
	for i, into := range []*[]dns.RR{&m.Answer, &m.Ns, &m.Extra} {
		rrs, err := s.fillTemplates(&t.sections[i], data, server)
		if err != nil {
			failQuery(w, r, err)
			return
		}
		*into = rrs
	}
	followTemplate(w, r, m)
	if t.Error != nil {
		explain(w, t.Error.Code, t.Error.Text)
	}
	reply(w, m)
}

// fillTemplates makes the records of one section.
func (s *Server) fillTemplates(section *templateSection, data *TemplateData, server string) ([]dns.RR, error) {
	var rrs []dns.RR
	for _, t := range section.records {
		labels := []string{server, data.Zone, "", data.Class, data.Type, section.name, t.Name()}
		var text strings.Builder
		if err := t.Execute(&text, data); err != nil {
			s.metrics.links.templateFailures.WithLabelValues(labels...).Inc()
			return nil, fmt.Errorf("template: %s: %w", section.name, err)
		}
		rr, err := dns.NewRR(text.String())
		if err == nil && rr == nil {
			err = errors.New("empty")
		}
		if err != nil {
			s.metrics.links.rrFailures.WithLabelValues(labels...).Inc()
			return nil, fmt.Errorf("template: %s %q: %w", section.name, text.String(), err)
		}
		rrs = append(rrs, rr)
	}
	return rrs, nil
}

// followTemplate adds what an alias at the end of the answer leads to.
func followTemplate(w dns.ResponseWriter, r, m *dns.Msg) {
	q := r.Question[0]
	if len(m.Answer) == 0 || q.Qtype == dns.TypeCNAME || m.Rcode != dns.RcodeSuccess {
		return
	}
	cname, ok := m.Answer[len(m.Answer)-1].(*dns.CNAME)
	if !ok {
		return
	}
	got, err := Resolve(queryContext(w), dns.Question{Name: cname.Target, Qtype: q.Qtype, Qclass: q.Qclass}, r)
	if err == nil && got.Rcode != dns.RcodeRefused {
		m.Rcode, m.Truncated = got.Rcode, m.Truncated || got.Truncated
		m.Answer = append(m.Answer, got.Answer...)
		m.Ns = append(m.Ns, got.Ns...)
	}
}
