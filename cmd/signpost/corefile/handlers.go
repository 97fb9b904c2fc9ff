package corefile

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"signpost/dnsserver"
)

// bind reads "bind ADDRESS|INTERFACE… { except ADDRESS|INTERFACE… }".
func (b *builder) bind(s *scan) {
	if s.count(1, -1, "one or more addresses or interfaces") {
		b.server.Bind = s.args
	}
	s.options(map[string]func(*scan){
		"except": func(o *scan) {
			if o.count(1, -1, "one or more addresses or interfaces") {
				b.server.BindExcept = o.args
			}
		},
	})
}

// loadbalance reads "loadbalance [round_robin]".
func (b *builder) loadbalance(s *scan) {
	s.noBody()
	if len(s.args) > 0 {
		s.oneOf("round_robin")
	}
	b.server.Block.LoadBalance = &dnsserver.LoadBalanceConfig{}
}

// forward reads "forward FROM TO… { … }". A network as FROM stands for each of
// its reverse zones.
func (b *builder) forward(s *scan) {
	if !s.count(2, 1+maxUpstreams, "FROM and 1 to 15 TO") {
		return
	}
	f := dnsserver.ForwardConfig{To: s.args[1:]}
	for _, to := range f.To {
		checkUpstream(s, to)
	}
	options := laterOptions("max_fails", "expire", "health_check", "tls", "tls_servername", "next",
		"failfast_all_unhealthy_upstreams")
	maps.Copy(options, forwardOptions(&f))
	s.options(options)
	for _, from := range s.zones(s.args[:1]) {
		f.From = from
		b.server.Block.Forwards = append(b.server.Block.Forwards, f)
	}
}

// maxUpstreams is CoreDNS's limit (F1).
const maxUpstreams = 15

var policies = map[string]dnsserver.Policy{
	"random": dnsserver.Random, "round_robin": dnsserver.RoundRobin, "sequential": dnsserver.Sequential,
}

// rcodes are those that an upstream may answer and another one may do better.
var rcodes = map[string]int{"FORMERR": 1, "SERVFAIL": 2, "NXDOMAIN": 3, "NOTIMP": 4, "REFUSED": 5}

func forwardOptions(f *dnsserver.ForwardConfig) map[string]func(*scan) {
	return map[string]func(*scan){
		"except":         func(o *scan) { f.Except = o.zones(o.args) },
		"force_tcp":      func(o *scan) { o.noArgs(); f.ForceTCP = true },
		"prefer_udp":     func(o *scan) { o.noArgs(); f.PreferUDP = true },
		"max_concurrent": func(o *scan) { f.MaxConcurrent = o.number(0, 1_000_000) },
		"policy":         func(o *scan) { f.Policy = policies[o.oneOf("random", "round_robin", "sequential")] },
		"failover": func(o *scan) {
			for _, name := range o.someOf(slices.Sorted(maps.Keys(rcodes))...) {
				f.Failover = append(f.Failover, rcodes[name])
			}
		},
	}
}

// checkUpstream reports a TO that is neither an address nor a file's path.
func checkUpstream(s *scan, to string) {
	scheme, rest, found := strings.Cut(to, "://")
	switch {
	case found && (scheme == "tls" || scheme == "https"):
		s.errorf("%s: transport %q is not supported yet: must be dns://", to, scheme)
	case found && (scheme != "dns" || !isAddress(rest)):
		s.argError(to, "an IP address with or without a port, or the path of a resolv.conf")
	case !found && !isAddress(to) && !strings.Contains(to, "/"):
		s.argError(to, "an IP address with or without a port, or the path of a resolv.conf")
	}
}

// isAddress reports whether a text is an address, with or without a port.
func isAddress(text string) bool {
	_, addrErr := netip.ParseAddr(strings.Trim(text, "[]"))
	_, portErr := netip.ParseAddrPort(text)
	return addrErr == nil || portErr == nil
}
