package corefile

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"signpost/dnsserver"
)

// The default addresses of the HTTP endpoints.
const (
	defaultHealth  = ":8080"
	defaultReady   = ":8181"
	defaultMetrics = ":9153"
	defaultHealthz = ":10256"
)

const longest = 24 * time.Hour // no span in a Corefile is sensibly longer

// health reads "health [ADDRESS] { lameduck DURATION }".
func (b *builder) health(s *scan) {
	b.config.Health = appendOnce(b.config.Health, s.listen(defaultHealth))
	s.options(map[string]func(*scan){
		"lameduck": func(o *scan) { b.config.Lameduck = max(b.config.Lameduck, o.duration(0, longest)) },
	})
}

// ready reads "ready [ADDRESS]".
func (b *builder) ready(s *scan) {
	s.noBody()
	b.config.Ready = appendOnce(b.config.Ready, s.listen(defaultReady))
}

// prometheus reads "prometheus [ADDRESS]".
func (b *builder) prometheus(s *scan) {
	s.noBody()
	b.server.Block.Metrics = true
	b.config.Metrics = appendOnce(b.config.Metrics, s.listen(defaultMetrics))
}

// CoreDNS's bounds of reload: smaller values are raised to these.
const (
	minReload, defaultReload = 2 * time.Second, 30 * time.Second
	minJitter, defaultJitter = time.Second, 15 * time.Second
)

// reload reads "reload [INTERVAL] [JITTER]" and "reload off".
func (b *builder) reload(s *scan) {
	s.noBody()
	r := Reload{Interval: defaultReload, Jitter: defaultJitter}
	if !s.count(0, 2, "at most two: INTERVAL and JITTER") {
		return
	}
	if slices.Equal(s.args, []string{"off"}) {
		b.config.Reload = Reload{}
		return
	}
	if len(s.args) > 0 {
		r.Interval = max(s.durationArg(s.args[0], 0, longest), minReload)
	}
	if len(s.args) > 1 {
		r.Jitter = max(s.durationArg(s.args[1], 0, longest), minJitter)
	}
	r.Jitter = min(r.Jitter, r.Interval/2)
	b.config.Reload = r
}

// errors reads "errors { consolidate DURATION REGEXP [LEVEL] [show_first]; stacktrace }".
// The stack of a panic is logged in any case.
func (b *builder) errors(s *scan) {
	s.noArgs()
	s.options(map[string]func(*scan){
		"consolidate": func(o *scan) { b.consolidate(o) },
		"stacktrace":  func(o *scan) { o.noArgs() },
	})
	b.server.Block.Errors = true
}

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warning": slog.LevelWarn, "error": slog.LevelError,
}

// consolidate reads one option of errors.
func (b *builder) consolidate(o *scan) {
	const want = "DURATION REGEXP [LEVEL] [show_first]"
	if !o.count(2, 4, want) {
		return
	}
	rule := dnsserver.ConsolidateRule{
		Every: o.durationArg(o.args[0], time.Millisecond, longest), Pattern: o.args[1], Level: slog.LevelError,
	}
	if _, err := regexp.Compile(rule.Pattern); err != nil || len(rule.Pattern) > maxPattern {
		o.argError(rule.Pattern, "a regular expression of at most 10000 characters")
	}
	rest := o.args[2:]
	if n := len(rest); n > 0 && rest[n-1] == "show_first" {
		rule.ShowFirst, rest = true, rest[:n-1]
	}
	if len(rest) > 0 {
		level, known := levels[rest[0]]
		if !known || len(rest) > 1 {
			o.argError(strings.Join(rest, " "), "one of debug, info, warning, error, then show_first or nothing")
		}
		rule.Level = level
	}
	b.server.Block.Consolidate = append(b.server.Block.Consolidate, rule)
}

// maxPattern is CoreDNS's limit.
const maxPattern = 10_000

// log reads "log [NAME…] [FORMAT] { class CLASS… }". Of several in a block, the
// first that fits a query logs it.
func (b *builder) log(s *scan) {
	q := dnsserver.LogConfig{}
	names := s.args
	if n := len(names); n > 0 && isFormat(names[n-1]) {
		q.Format, names = names[n-1], names[:n-1]
	}
	q.Names = s.zones(names)
	s.options(map[string]func(*scan){
		"class": func(o *scan) { q.Classes = o.someOf("all", "denial", "error", "success") },
	})
	b.server.Block.Logs = append(b.server.Block.Logs, q)
}

// isFormat tells a log format from a zone, as CoreDNS does: by its braces.
func isFormat(arg string) bool { return strings.ContainsAny(arg, "{ ") }

func appendOnce(list []string, one string) []string {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}
