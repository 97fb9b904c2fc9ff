package corefile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// scan reads the arguments of one line. What is wrong it reports to the file's
// list of errors and goes on, so that one run shows every problem.
type scan struct {
	*line
	directive string
	errs      *Errors
}

func (s *scan) place() Place { return Place{File: s.file, Line: s.num} }

// errorf reports a problem with this line; an option's name comes first.
func (s *scan) errorf(format string, args ...any) {
	problem := fmt.Sprintf(format, args...)
	if s.name != s.directive {
		problem = s.name + " " + problem
	}
	*s.errs = append(*s.errs, &Error{File: s.file, Line: s.num, Subject: s.directive, Problem: problem})
}

// argError reports an argument that is not what it must be: "ttl 99999: must be …".
func (s *scan) argError(arg, must string) { s.errorf("%s: must be %s", arg, must) }

// noArgs reports arguments where there must be none.
func (s *scan) noArgs() { s.count(0, 0, "no argument") }

// noBody reports lines in braces where there must be none.
func (s *scan) noBody() {
	for _, l := range s.body {
		(&scan{line: l, directive: s.directive, errs: s.errs}).errorf("is not allowed: %s takes no options", s.name)
	}
}

// count reports whether the line has low to high arguments (high < 0: no
// limit), and a problem if it doesn't.
func (s *scan) count(low, high int, want string) bool {
	if len(s.args) >= low && (high < 0 || len(s.args) <= high) {
		return true
	}
	plural := "s"
	if len(s.args) == 1 {
		plural = ""
	}
	s.errorf("has %d argument%s: must have %s", len(s.args), plural, want)
	return false
}

// word returns the only argument, and "" after a problem.
func (s *scan) word(want string) string {
	if !s.count(1, 1, "one: "+want) {
		return ""
	}
	return s.args[0]
}

// oneOf returns the only argument, one of the choices.
func (s *scan) oneOf(choices ...string) string {
	w := s.word(strings.Join(choices, ", "))
	if w != "" && !slices.Contains(choices, w) {
		s.argError(w, "one of "+strings.Join(choices, ", "))
	}
	return w
}

// someOf returns the arguments, one or more of the choices.
func (s *scan) someOf(choices ...string) []string {
	want := "one or more of " + strings.Join(choices, ", ")
	s.count(1, -1, want)
	for _, arg := range s.args {
		if !slices.Contains(choices, arg) {
			s.argError(arg, want)
		}
	}
	return s.args
}

// selector returns the arguments as a label selector.
func (s *scan) selector() func(map[string]string) bool {
	if !s.count(1, -1, "a label selector") {
		return nil
	}
	text := strings.Join(s.args, " ")
	selector, err := labels.Parse(text)
	if err != nil {
		s.argError(text, "a label selector: "+err.Error())
		return nil
	}
	return func(set map[string]string) bool { return selector.Matches(labels.Set(set)) }
}

// number returns the only argument, a whole number in the limits.
func (s *scan) number(low, high int) int {
	want := fmt.Sprintf("between %d and %d", low, high)
	w := s.word("a number " + want)
	if w == "" {
		return 0
	}
	n, err := strconv.Atoi(w)
	if err != nil || n < low || n > high {
		s.argError(w, want)
	}
	return n
}

// duration returns the only argument, a time span in the limits.
func (s *scan) duration(low, high time.Duration) time.Duration {
	w := s.word("a duration, such as 5s")
	if w == "" {
		return 0
	}
	return s.durationArg(w, low, high)
}

func (s *scan) durationArg(arg string, low, high time.Duration) time.Duration {
	d, err := time.ParseDuration(arg)
	switch {
	case err != nil:
		s.argError(arg, "a duration, such as 5s")
	case d < low || d > high:
		s.argError(arg, fmt.Sprintf("between %s and %s", low, high))
	}
	return d
}

// prefix reads one argument as a network.
func (s *scan) prefix(arg string) netip.Prefix {
	p, err := netip.ParsePrefix(arg)
	switch {
	case err != nil:
		s.argError(arg, "a network, such as 10.96.0.0/12")
	case p != p.Masked():
		s.argError(arg, fmt.Sprintf("a network without host bits: %s", p.Masked()))
	}
	return p
}

// prefixes reads low to high arguments as networks.
func (s *scan) prefixes(low, high int, want string) []netip.Prefix { //nolint:unparam // as count has them
	if !s.count(low, high, want) {
		return nil
	}
	list := make([]netip.Prefix, len(s.args))
	for i, arg := range s.args {
		list[i] = s.prefix(arg)
	}
	return list
}

// listen returns the optional argument, an address to listen on:
// "[HOST]:PORT" with the host's address or nothing.
func (s *scan) listen(fallback string) string {
	if !s.count(0, 1, "at most one: an address, such as "+fallback) || len(s.args) == 0 {
		return fallback
	}
	at := strings.LastIndexByte(s.args[0], ':')
	host, port := strings.Trim(s.args[0][:max(at, 0)], "[]"), s.args[0][at+1:]
	_, portErr := strconv.ParseUint(port, 10, 16)
	_, hostErr := netip.ParseAddr(host)
	if at < 0 || portErr != nil || (host != "" && host != "localhost" && hostErr != nil) {
		s.argError(s.args[0], "[ADDRESS]:PORT, such as "+fallback)
	}
	return s.args[0]
}

// options runs the function of each option line; an unknown one is refused
// with the list of those that are allowed.
func (s *scan) options(table map[string]func(*scan)) {
	for _, l := range s.body {
		option := &scan{line: l, directive: s.directive, errs: s.errs}
		read, known := table[l.name]
		if !known {
			option.errorf("is unknown: must be one of %s", strings.Join(slices.Sorted(maps.Keys(table)), ", "))
			continue
		}
		read(option)
		option.noBody()
	}
}

// zones reads arguments as zones: names, or networks for their reverse zones.
func (s *scan) zones(args []string) []string {
	var all []string
	for _, arg := range args {
		zones, err := parseZone(arg)
		if err != nil {
			s.errorf("%v", err)
			continue
		}
		all = append(all, zones...)
	}
	return all
}
