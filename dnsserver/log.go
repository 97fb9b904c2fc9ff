package dnsserver

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// LogConfig is one query log (CoreDNS's log plugin).
type LogConfig struct {
	// Names limits the log to these domains and what is below; empty: all.
	Names []string
	// Format is a line with placeholders in braces, {common} and {combined}
	// among them; empty means {common}.
	Format string
	// Classes limits the log to success, denial (NXDOMAIN and NODATA) and
	// error; empty or "all": everything.
	Classes []string
}

// The formats of CoreDNS.
const (
	logCommon = `{remote}:{port} - {>id} "{type} {class} {name} {proto} {size} {>do} {>bufsize}"` +
		` {rcode} {>rflags} {rsize} {duration}`
	logCombined = logCommon + ` "{>opcode}"`
)

// queryLog writes a line for each query once it is answered.
func queryLog(configs []LogConfig, log *slog.Logger) middleware {
	if len(configs) == 0 {
		return nil
	}
	logs := make([]oneLog, len(configs))
	for i, cfg := range configs {
		cfg.Names = canonical(cfg.Names)
		logs[i] = oneLog{cfg, parseLogFormat(cfg.Format)}
	}
	return func(next dns.Handler) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			next.ServeDNS(w, r)
			q := queryOf(w)
			if q == nil || q.internal || !q.written {
				return
			}
			at := slices.IndexFunc(logs, func(l oneLog) bool { return within(r.Question[0].Name, l.Names) && l.wants(q) })
			if at >= 0 {
				log.Info(logs[at].format.line(q, r))
			}
		})
	}
}

// oneLog is a log with its format parsed.
type oneLog struct {
	LogConfig
	format logFormat
}

// within reports whether a name lies in one of the domains; with none given it
// does.
func within(name string, domains []string) bool {
	return len(domains) == 0 || slices.ContainsFunc(domains, func(d string) bool { return dns.IsSubDomain(d, name) })
}

// wants reports whether the class of the reply is to be logged.
func (c *LogConfig) wants(q *query) bool {
	return len(c.Classes) == 0 || slices.Contains(c.Classes, "all") || slices.Contains(c.Classes, q.class())
}

// class is CoreDNS's class of a reply.
func (q *query) class() string {
	switch {
	case q.rcode == dns.RcodeNameError, q.rcode == dns.RcodeSuccess && q.empty:
		return "denial"
	case q.rcode == dns.RcodeSuccess:
		return "success"
	}
	return "error"
}

// logFormat is a format cut at its placeholders: text, placeholder, text, …
type logFormat []string

// parseLogFormat cuts a format. What isn't a placeholder stays as it is.
func parseLogFormat(format string) logFormat {
	if format == "" {
		format = "{common}"
	}
	format = strings.NewReplacer("{common}", logCommon, "{combined}", logCombined).Replace(format)
	var parts logFormat
	for {
		open := strings.IndexByte(format, '{')
		if open < 0 {
			return append(parts, format)
		}
		end := strings.IndexByte(format[open:], '}')
		if end < 0 {
			return append(parts, format)
		}
		parts = append(parts, format[:open], format[open:open+end+1])
		format = format[open+end+1:]
	}
}

// line fills the format in.
func (f logFormat) line(q *query, r *dns.Msg) string {
	var b strings.Builder
	for i, part := range f {
		if i%2 == 0 {
			b.WriteString(part)
			continue
		}
		b.WriteString(q.placeholder(part, r))
	}
	return b.String()
}

// placeholder returns the value of a placeholder, "-" where there is none.
func (q *query) placeholder(name string, r *dns.Msg) string {
	question := r.Question[0]
	switch name {
	case "{type}":
		return dns.Type(question.Qtype).String()
	case "{class}":
		return dns.Class(question.Qclass).String()
	case "{name}":
		return question.Name
	case "{remote}":
		return logAddr(q.client.remote().Addr())
	case "{port}":
		return strconv.Itoa(int(q.client.remote().Port()))
	case "{local}":
		return logAddr(q.client.local().Addr())
	case "{proto}":
		return q.proto.String()
	case "{size}":
		return strconv.Itoa(len(q.raw))
	case "{duration}":
		return strconv.FormatFloat(time.Since(q.start).Seconds(), 'f', -1, 64) + "s"
	case "{rcode}":
		return rcodeLabel(q.rcode)
	case "{rsize}":
		return strconv.Itoa(q.size)
	}
	return q.headerPlaceholder(name, r)
}

// headerPlaceholder returns those that CoreDNS marks as taken from the header.
func (q *query) headerPlaceholder(name string, r *dns.Msg) string {
	switch name {
	case "{>id}":
		return strconv.Itoa(int(r.Id))
	case "{>opcode}":
		return strconv.Itoa(r.Opcode)
	case "{>do}":
		return strconv.FormatBool(q.in.edns.do)
	case "{>bufsize}":
		if q.in.edns.present {
			return strconv.Itoa(int(q.in.edns.size))
		}
		return strconv.Itoa(minUDPSize)
	case "{>rflags}":
		return flagNames(q.flags)
	}
	return "-"
}
