package corefile

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"signpost/dnsserver"
)

// maxUpstreams is CoreDNS's limit (F1).
const maxUpstreams = 15

// forward reads "forward FROM TO… { … }". A network as FROM stands for each of
// its reverse zones.
func (b *builder) forward(s *scan) {
	if !s.count(2, 1+maxUpstreams, "FROM and 1 to 15 TO") {
		return
	}
	f := dnsserver.ForwardConfig{To: s.args[1:]}
	for _, to := range f.To {
		if err := dnsserver.CheckUpstream(to); err != nil {
			s.errorf("%v", err)
		}
	}
	options := askOptions(&f)
	maps.Copy(options, connOptions(&f))
	maps.Copy(options, healthOptions(&f.Health))
	s.options(options)
	if f.Pool.MaxAge > 0 && f.Pool.MaxAge < f.Pool.Expire {
		s.errorf("max_age %s: must not be less than expire, %s", f.Pool.MaxAge, f.Pool.Expire)
	}
	for _, from := range s.zones(s.args[:1]) {
		f.From = from
		b.server.Block.Forwards = append(b.server.Block.Forwards, f)
	}
}

var policies = map[string]dnsserver.Policy{
	"random": dnsserver.Random, "round_robin": dnsserver.RoundRobin, "sequential": dnsserver.Sequential,
}

// rcodes are those that an upstream may answer and another one may do better.
var rcodes = map[string]int{"FORMERR": 1, "SERVFAIL": 2, "NXDOMAIN": 3, "NOTIMP": 4, "REFUSED": 5}

// rcodes reads one or more of them.
func (s *scan) rcodes() []int {
	var list []int
	for _, name := range s.someOf(slices.Sorted(maps.Keys(rcodes))...) {
		list = append(list, rcodes[name])
	}
	return list
}

// askOptions say what is asked, of whom, and how often. Where 0 means "no
// limit" here, it is a negative number there.
func askOptions(f *dnsserver.ForwardConfig) map[string]func(*scan) {
	return map[string]func(*scan){
		"except":               func(o *scan) { f.Except = o.zones(o.args) },
		"policy":               func(o *scan) { f.Policy = policies[o.oneOf("random", "round_robin", "sequential")] },
		"max_concurrent":       func(o *scan) { f.MaxConcurrent = o.number(0, 1_000_000) },
		"max_connect_attempts": func(o *scan) { f.MaxAttempts = zeroIsNone(o.number(0, 1_000_000)) },
		"read_timeout":         func(o *scan) { f.Timeout = o.duration(time.Millisecond, longest) },
		"failover":             func(o *scan) { f.Failover = o.rcodes() },
		"next":                 func(o *scan) { f.Next = o.rcodes() },
		"next_on_nodata":       func(o *scan) { o.noArgs(); f.NextOnNodata = true },
	}
}

// connOptions say how upstreams are spoken to.
func connOptions(f *dnsserver.ForwardConfig) map[string]func(*scan) {
	return map[string]func(*scan){
		"force_tcp":      func(o *scan) { o.noArgs(); f.ForceTCP = true },
		"prefer_udp":     func(o *scan) { o.noArgs(); f.PreferUDP = true },
		"expire":         func(o *scan) { f.Pool.Expire = o.duration(time.Millisecond, longest) },
		"max_age":        func(o *scan) { f.Pool.MaxAge = o.duration(0, longest) },
		"max_idle_conns": func(o *scan) { f.Pool.MaxIdle = o.number(0, 1_000_000) },
		"source_address": func(o *scan) { f.Source = sourceAddress(o) },
		"resolver":       func(o *scan) { f.Resolvers = resolvers(o) },
		"doh_method":     func(o *scan) { f.HTTPGet = o.oneOf("GET", "POST") == "GET" },
		"tls_servername": func(o *scan) { f.TLS.ServerName = o.word("a name") },
		"tls":            func(o *scan) { forwardTLS(o, &f.TLS) },
	}
}

func sourceAddress(o *scan) netip.Addr {
	text := o.word("an IP address")
	if text == "" {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		o.argError(text, "an IP address")
	}
	return addr
}

// resolvers reads the addresses of those who know the names of upstreams.
func resolvers(o *scan) []string {
	o.count(1, -1, "one or more of IP[:PORT]")
	for _, arg := range o.args {
		if _, err := dnsserver.ParseResolver(arg); err != nil {
			o.argError(arg, "an IP address with or without a port")
		}
	}
	return o.args
}

// forwardTLS reads "tls", "tls CA", "tls CERT KEY" or "tls CERT KEY CA".
func forwardTLS(o *scan, t *dnsserver.ForwardTLS) {
	if !o.count(0, 3, "[CERT KEY] [CA]") {
		return
	}
	files := o.args
	if len(files) >= 2 {
		t.CertFile, t.KeyFile, files = files[0], files[1], files[2:]
	}
	if len(files) == 1 {
		t.CAFile = files[0]
	}
}

// healthOptions say when an upstream is passed over.
func healthOptions(h *dnsserver.HealthConfig) map[string]func(*scan) {
	return map[string]func(*scan){
		"max_fails":                        func(o *scan) { h.MaxFails = zeroIsNone(o.number(0, 1_000_000)) },
		"failfast_all_unhealthy_upstreams": func(o *scan) { o.noArgs(); h.FailFast = true },
		"health_check":                     func(o *scan) { healthCheck(o, h) },
	}
}

// healthCheck reads "health_check DURATION [no_rec] [domain FQDN]".
func healthCheck(o *scan, h *dnsserver.HealthConfig) {
	const want = "DURATION [no_rec] [domain FQDN]"
	if !o.count(1, 4, want) {
		return
	}
	h.Interval = o.durationArg(o.args[0], time.Millisecond, longest)
	for rest := o.args[1:]; len(rest) > 0; {
		switch {
		case rest[0] == "no_rec":
			h.NoRecursion, rest = true, rest[1:]
		case rest[0] == "domain" && len(rest) > 1:
			if zones := o.zones(rest[1:2]); len(zones) > 0 {
				h.Domain = zones[0]
			}
			rest = rest[2:]
		default:
			o.argError(rest[0], want)
			return
		}
	}
}

func zeroIsNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}
