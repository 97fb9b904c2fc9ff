package corefile

import (
	"maps"
	"net/netip"
	"slices"

	"signpost/dnsserver"
)

var aclActions = map[string]dnsserver.ACLAction{
	"allow": dnsserver.ACLAllow, "block": dnsserver.ACLBlock, "filter": dnsserver.ACLFilter, "drop": dnsserver.ACLDrop,
}

// acl reads "acl [ZONE…] { ACTION [type TYPE…] [net NETWORK…] }".
func (b *builder) acl(s *scan) {
	rule := dnsserver.ACLRule{Zones: s.zones(s.args)}
	table := map[string]func(*scan){}
	for name, action := range aclActions {
		table[name] = func(o *scan) { rule.Policies = append(rule.Policies, o.aclPolicy(action)) }
	}
	s.options(table)
	if len(s.body) == 0 {
		s.errorf("has no rule: must have one or more of %v", slices.Sorted(maps.Keys(aclActions)))
	}
	b.server.Block.ACL = append(b.server.Block.ACL, rule)
}

// aclPolicy reads "[type TYPE…] [net NETWORK…]"; "*" is all.
func (s *scan) aclPolicy(action dnsserver.ACLAction) dnsserver.ACLPolicy {
	p := dnsserver.ACLPolicy{Action: action}
	var section string
	counts := map[string]int{}
	for _, arg := range s.args {
		switch {
		case arg == "type" || arg == "net":
			section = arg
			counts[section] += 0
			continue
		case section == "":
			s.argError(arg, "type or net")
		case arg == "*":
		case section == "type":
			p.Types = append(p.Types, s.recordType(arg))
		default:
			p.Nets = append(p.Nets, s.network(arg))
		}
		counts[section]++
	}
	for _, section := range []string{"type", "net"} {
		if n, stands := counts[section]; stands && n == 0 {
			s.errorf("%s has no argument: must have one or more, or *", section)
		}
		if slices.Contains(s.args, "*") && counts[section] > 1 && starIn(s.args, section) {
			s.errorf("%s has more than *: must have one of the two", section)
		}
	}
	return p
}

// starIn reports whether "*" is among a section's words.
func starIn(args []string, section string) bool {
	at := ""
	for _, arg := range args {
		if arg == "type" || arg == "net" {
			at = arg
		}
		if arg == "*" && at == section {
			return true
		}
	}
	return false
}

// recordType reads the name of a record type.
func (s *scan) recordType(name string) uint16 {
	t, ok := dnsserver.ParseType(name)
	if !ok {
		s.argError(name, "a record type, such as AAAA or TYPE65280")
	}
	return t
}

// network reads a network or an address.
func (s *scan) network(arg string) netip.Prefix {
	if a, err := netip.ParseAddr(arg); err == nil {
		return netip.PrefixFrom(a, a.BitLen())
	}
	p, err := netip.ParsePrefix(arg)
	if err != nil {
		s.argError(arg, "a network or an address, such as 10.0.0.0/8")
	}
	return p.Masked()
}

// rateLimit reads "ratelimit [RESPONSES_PER_SECOND] { … }".
func (b *builder) rateLimit(s *scan) {
	r := &dnsserver.RateLimitConfig{}
	if s.count(0, 1, "at most one: responses a second for a client network") && len(s.args) == 1 {
		r.Responses = s.number(1, maxRate)
	}
	s.options(map[string]func(*scan){
		"nxdomains_per_second": func(o *scan) { r.NXDomains = o.number(1, maxRate) },
		"errors_per_second":    func(o *scan) { r.Errors = o.number(1, maxRate) },
		"queries_per_second":   func(o *scan) { r.Queries = o.number(1, maxRate) },
		"burst":                func(o *scan) { r.Burst = o.number(1, 3600) },
		"slip":                 func(o *scan) { n := o.number(0, 10); r.Slip = &n },
		"ipv4_prefix_length":   func(o *scan) { r.IPv4Bits = o.number(1, 32) },
		"ipv6_prefix_length":   func(o *scan) { r.IPv6Bits = o.number(1, 128) },
		"max_table_size":       func(o *scan) { r.TableSize = o.number(100, 10_000_000) },
		"exempt": func(o *scan) {
			o.count(1, -1, "one or more networks")
			for _, arg := range o.args {
				r.Exempt = append(r.Exempt, o.network(arg))
			}
		},
	})
	if r.Responses+r.NXDomains+r.Errors+r.Queries == 0 {
		s.errorf("has no limit: must have RESPONSES_PER_SECOND or one of the options …_per_second")
	}
	b.server.Block.RateLimit = r
}

const maxRate = 10_000_000 // a second

// any reads "any".
func (b *builder) any(s *scan) {
	s.noArgs()
	s.noBody()
	b.server.Block.MinimalANY = true
}

// minimal reads "minimal".
func (b *builder) minimal(s *scan) {
	s.noArgs()
	s.noBody()
	b.server.Block.Minimal = true
}

// whoami reads "whoami".
func (b *builder) whoami(s *scan) {
	s.noArgs()
	s.noBody()
	b.server.Block.Whoami = true
}

// bufsize reads "bufsize [SIZE]".
func (b *builder) bufsize(s *scan) {
	s.noBody()
	b.server.Block.MaxUDPSize = 1232
	if len(s.args) > 0 {
		b.server.Block.MaxUDPSize = uint16(s.number(512, 4096))
	}
}

// local reads "local { localhost_prefix on|off }".
func (b *builder) local(s *scan) {
	s.noArgs()
	b.server.Block.Local = &dnsserver.LocalConfig{}
	s.options(map[string]func(*scan){
		"localhost_prefix": func(o *scan) { b.server.Block.Local.NoPrefix = o.oneOf("on", "off") == "off" },
	})
}
