package corefile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"signpost/dnsserver"
)

// rewrite reads "rewrite [continue|stop] FIELD …", on one line or in braces.
func (b *builder) rewrite(s *scan) {
	r := &rewriteScan{scan: s, words: s.args}
	for _, l := range s.body {
		(&scan{line: l, directive: s.directive, errs: s.errs}).noBody()
		r.words = append(append(slices.Clip(r.words), l.name), l.args...)
	}
	if len(r.words) > 0 && (r.words[0] == "continue" || r.words[0] == "stop") {
		r.rule.Continue = r.words[0] == "continue"
		r.words = r.words[1:]
	}
	if r.read() && len(r.words) > 0 {
		r.fail(r.words[0], "the end of the line")
	}
	if !r.failed {
		b.server.Block.Rewrites = append(b.server.Block.Rewrites, r.rule)
	}
}

// rewriteScan reads the words of one rule.
type rewriteScan struct {
	*scan
	words  []string
	rule   dnsserver.RewriteRule
	failed bool
}

// fail reports a word that is not what it must be.
func (r *rewriteScan) fail(word, must string) bool {
	if !r.failed {
		if word == "" {
			word = "end of the line"
		}
		r.argError(word, must)
	}
	r.failed = true
	return false
}

// next takes a word.
func (r *rewriteScan) next(want string) string {
	if len(r.words) == 0 {
		r.fail("", want)
		return ""
	}
	w := r.words[0]
	r.words = r.words[1:]
	return w
}

// rewriteFields are the functions that read what follows a field's name.
var rewriteFields = map[string]func(*rewriteScan) bool{
	"name": (*rewriteScan).name, "type": (*rewriteScan).rrtype, "class": (*rewriteScan).class,
	"ttl": (*rewriteScan).ttl, "rcode": (*rewriteScan).codes, "cname": (*rewriteScan).cname, "edns0": (*rewriteScan).edns0,
}

var rewriteMatches = map[string]dnsserver.RewriteMatch{
	"exact": dnsserver.MatchExact, "prefix": dnsserver.MatchPrefix, "suffix": dnsserver.MatchSuffix,
	"substring": dnsserver.MatchSubstring, "regex": dnsserver.MatchRegex,
}

// read reads the rule; false after a problem.
func (r *rewriteScan) read() bool {
	names := strings.Join(slices.Sorted(maps.Keys(rewriteFields)), ", ")
	field := r.next("continue, stop or one of " + names)
	if r.failed {
		return false
	}
	read, ok := rewriteFields[field]
	if !ok {
		return r.fail(field, "one of "+names)
	}
	return read(r)
}

// match takes an optional kind of match, and the name to match.
func (r *rewriteScan) match() {
	if len(r.words) > 0 {
		if m, ok := rewriteMatches[r.words[0]]; ok {
			r.rule.Match, r.words = m, r.words[1:]
		}
	}
	r.rule.From = r.next("a name to match")
}

// name reads "[MATCH] FROM TO [answer …]…".
func (r *rewriteScan) name() bool {
	r.rule.Field = dnsserver.RewriteName
	r.match()
	r.rule.To = r.next("the new name")
	for len(r.words) > 0 && !r.failed {
		if w := r.next(""); w != "answer" {
			return r.fail(w, "answer")
		}
		r.answer()
	}
	return !r.failed
}

// answer reads "auto", "name auto", "name FROM TO" and "value FROM TO".
func (r *rewriteScan) answer() {
	part := r.next("auto, name or value")
	if part == "auto" || part == "name" && len(r.words) > 0 && r.words[0] == "auto" {
		if part == "name" {
			r.words = r.words[1:]
		}
		r.rule.AnswerAuto = true
		return
	}
	n := dnsserver.NameRewrite{From: r.next("an expression"), To: r.next("a name")}
	switch part {
	case "name":
		r.rule.AnswerNames = append(r.rule.AnswerNames, n)
	case "value":
		r.rule.AnswerValues = append(r.rule.AnswerValues, n)
	default:
		r.fail(part, "auto, name or value")
	}
}

// rrtype reads "FROM TO".
func (r *rewriteScan) rrtype() bool {
	r.rule.Field = dnsserver.RewriteType
	return r.twoCodes(dnsserver.ParseType, "a record type, such as AAAA")
}

// class reads "FROM TO".
func (r *rewriteScan) class() bool {
	r.rule.Field = dnsserver.RewriteClass
	return r.twoCodes(dnsserver.ParseClass, "a class, such as CH")
}

func (r *rewriteScan) twoCodes(parse func(string) (uint16, bool), want string) bool {
	for _, into := range []*uint16{&r.rule.FromCode, &r.rule.ToCode} {
		w := r.next(want)
		code, ok := parse(w)
		if !ok {
			return r.fail(w, want)
		}
		*into = code
	}
	return true
}

// codes reads "[MATCH] NAME FROM TO".
func (r *rewriteScan) codes() bool {
	r.rule.Field = dnsserver.RewriteRcode
	r.match()
	return r.twoCodes(func(w string) (uint16, bool) {
		code, ok := dnsserver.ParseRcode(w)
		return uint16(code), ok
	}, "a response code, such as NXDOMAIN")
}

// cname reads "[MATCH] FROM TO".
func (r *rewriteScan) cname() bool {
	r.rule.Field = dnsserver.RewriteCNAME
	r.match()
	r.rule.To = r.next("the new target")
	return !r.failed
}

// maxTTL is what a TTL can say (RFC 2181 8).
const maxTTL = 1<<31 - 1

// ttl reads "[MATCH] NAME SECONDS|[MIN]-[MAX]".
func (r *rewriteScan) ttl() bool {
	r.rule.Field = dnsserver.RewriteTTL
	r.match()
	const want = "seconds, or their bounds, such as 30-300"
	w := r.next(want)
	low, high, isRange := strings.Cut(w, "-")
	if !isRange {
		high = low
	}
	bound := func(text string, open uint64) uint32 {
		if isRange && text == "" {
			return uint32(open)
		}
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n > maxTTL {
			r.fail(w, want)
		}
		return uint32(n)
	}
	r.rule.MinTTL, r.rule.MaxTTL = bound(low, 0), bound(high, maxTTL)
	if w == "-" || r.rule.MinTTL > r.rule.MaxTTL {
		return r.fail(w, want)
	}
	return !r.failed
}

var edns0Actions = map[string]dnsserver.EDNS0Action{
	"set": dnsserver.EDNS0Set, "append": dnsserver.EDNS0Append, "replace": dnsserver.EDNS0Replace, "unset": dnsserver.EDNS0Unset,
}

// edns0 reads "local ACTION CODE [DATA]", "nsid ACTION" and
// "subnet ACTION [V4BITS V6BITS]", each with an optional "revert": replies to
// clients have none of these options in any case.
func (r *rewriteScan) edns0() bool {
	r.rule.Field = dnsserver.RewriteEDNS0
	e := &r.rule.EDNS0
	kind := r.next("local, nsid or subnet")
	w := r.next("set, append, replace or unset")
	action, ok := edns0Actions[w]
	if !ok {
		return r.fail(w, "set, append, replace or unset")
	}
	e.Action = action
	switch kind {
	case "nsid":
		e.Code = dnsserver.OptionNSID
	case "local":
		e.Code = uint16(r.bits("the number of an option, such as 0xffee", 65535))
		if action != dnsserver.EDNS0Unset {
			e.Data = r.next("data")
		}
	case "subnet":
		e.Code = dnsserver.OptionSubnet
		if action != dnsserver.EDNS0Unset {
			e.V4Bits, e.V6Bits = uint8(r.bits("bits of IPv4", 32)), uint8(r.bits("bits of IPv6", 128))
		}
	default:
		return r.fail(kind, "local, nsid or subnet")
	}
	if len(r.words) > 0 && r.words[0] == "revert" {
		r.words = r.words[1:]
	}
	return !r.failed
}

// bits takes a number up to a limit.
func (r *rewriteScan) bits(want string, limit uint64) uint64 {
	w := r.next(want)
	n, err := strconv.ParseUint(w, 0, 16)
	if err != nil || n > limit {
		r.fail(w, fmt.Sprintf("%s: at most %d", want, limit))
	}
	return n
}
