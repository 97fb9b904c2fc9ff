package corefile

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"signpost/dnsserver"
)

// defaultHosts is the file of hosts if none is named.
const defaultHosts = "/etc/hosts"

// hosts reads "hosts [FILE [ZONE…]] { … }". What is no option is a line of a
// hosts file.
func (b *builder) hosts(s *scan) {
	h := &dnsserver.HostsConfig{File: defaultHosts}
	if len(s.args) > 0 {
		h.File, h.Zones = s.args[0], s.zones(s.args[1:])
	}
	table := hostsOptions(h)
	options := *s.line
	options.body = nil
	for _, l := range s.body {
		if _, err := netip.ParseAddr(l.name); err != nil {
			options.body = append(options.body, l)
			continue
		}
		o := &scan{line: l, directive: s.directive, errs: s.errs}
		o.count(1, -1, "one or more names behind the address")
		o.noBody()
		h.Inline = append(h.Inline, strings.Join(append([]string{l.name}, l.args...), " "))
	}
	(&scan{line: &options, directive: s.directive, errs: s.errs}).options(table)
	if h.FallthroughUnsupported && len(h.Fallthrough) == 0 {
		s.errorf("fallthrough_unsupported: must have fallthrough beside it")
	}
	b.server.Block.Hosts = h
}

func hostsOptions(h *dnsserver.HostsConfig) map[string]func(*scan) {
	return map[string]func(*scan){
		"ttl":                     func(o *scan) { n := uint32(o.number(1, 65535)); h.TTL = &n },
		"no_reverse":              func(o *scan) { o.noArgs(); h.NoReverse = true },
		"fallthrough":             func(o *scan) { h.Fallthrough = o.through() },
		"fallthrough_unsupported": func(o *scan) { o.noArgs(); h.FallthroughUnsupported = true },
		"reload": func(o *scan) {
			var d time.Duration
			if len(o.args) != 1 || o.args[0] != "0" { // CoreDNS's spelling of never
				d = o.duration(0, longest)
			}
			h.Reload = &d
		},
	}
}

// through reads the zones of a fallthrough; none are all.
func (s *scan) through() []string {
	if len(s.args) == 0 {
		return []string{"."}
	}
	return s.zones(s.args)
}

// template reads "template CLASS TYPE [ZONE…] { … }".
func (b *builder) template(s *scan) {
	if !s.count(2, -1, "CLASS, TYPE and any number of zones") {
		return
	}
	var t dnsserver.TemplateConfig
	var ok bool
	if t.Class, ok = dnsserver.ParseClass(s.args[0]); !ok {
		s.argError(s.args[0], "a class, such as IN or ANY")
	}
	t.Type = s.recordType(s.args[1])
	t.Zones = s.zones(s.args[2:])
	record := func(into *[]string) func(*scan) {
		return func(o *scan) { *into = append(*into, o.word("a record, quoted")) }
	}
	s.options(map[string]func(*scan){
		"match":       func(o *scan) { o.count(1, -1, "one or more expressions"); t.Match = append(t.Match, o.args...) },
		"answer":      record(&t.Answer),
		"additional":  record(&t.Additional),
		"authority":   record(&t.Authority),
		"rcode":       func(o *scan) { t.Rcode = o.rcode() },
		"ederror":     func(o *scan) { t.Error = o.extendedError() },
		"fallthrough": func(o *scan) { t.Fallthrough = o.through() },
		"var":         func(o *scan) { o.errorf("is not supported: there are no expressions here: remove this line") },
		"expr":        func(o *scan) { o.errorf("is not supported: there are no expressions here: remove this line") },
	})
	b.server.Block.Templates = append(b.server.Block.Templates, t)
}

// rcode reads the name of a response code.
func (s *scan) rcode() int {
	w := s.word("a response code")
	code, ok := dnsserver.ParseRcode(w)
	if !ok && w != "" {
		s.argError(w, "a response code, such as NXDOMAIN")
	}
	return code
}

// extendedError reads "CODE [REASON]".
func (s *scan) extendedError() *dnsserver.ExtendedError {
	if !s.count(1, 2, "CODE and at most a REASON") {
		return nil
	}
	code, err := strconv.ParseUint(s.args[0], 10, 16)
	if err != nil {
		s.argError(s.args[0], "the number of an extended error, such as 15")
	}
	e := &dnsserver.ExtendedError{Code: uint16(code)}
	if len(s.args) == 2 {
		e.Text = s.args[1]
	}
	return e
}

// dns64 reads "dns64 [PREFIX] { … }".
func (b *builder) dns64(s *scan) {
	d := &dnsserver.DNS64Config{}
	if s.count(0, 1, "at most one: a prefix") && len(s.args) == 1 {
		d.Prefix = s.nat64(s.args[0])
	}
	s.options(map[string]func(*scan){
		"prefix":        func(o *scan) { d.Prefix = o.nat64(o.word("an IPv6 prefix")) },
		"translate_all": func(o *scan) { o.noArgs(); d.TranslateAll = true },
		"allow_ipv4":    func(o *scan) { o.noArgs(); d.AllowIPv4 = true },
	})
	b.server.Block.DNS64 = d
}

// nat64 reads a prefix that IPv4 addresses can be embedded in.
func (s *scan) nat64(arg string) netip.Prefix {
	p, err := netip.ParsePrefix(arg)
	if arg != "" && (err != nil || !p.Addr().Is6() || p != p.Masked()) {
		s.argError(arg, "an IPv6 prefix without host bits, such as 64:ff9b::/96")
	}
	return p
}

// autopath reads "autopath [ZONE…] RESOLV-CONF|@kubernetes".
func (b *builder) autopath(s *scan) {
	s.noBody()
	if !s.count(1, -1, "any number of zones, then @kubernetes or a file") {
		return
	}
	last := s.args[len(s.args)-1]
	a := &dnsserver.AutoPathConfig{Zones: s.zones(s.args[:len(s.args)-1])}
	switch {
	case last == "@kubernetes":
	case strings.HasPrefix(last, "@"):
		s.argError(last, "@kubernetes or the path of a resolv.conf")
	default:
		a.ResolvConf = last
	}
	b.server.Block.AutoPath = a
}
