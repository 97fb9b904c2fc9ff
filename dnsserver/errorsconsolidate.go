package dnsserver

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"
)

// ConsolidateRule sums up errors that come often (CoreDNS's errors plugin).
type ConsolidateRule struct {
	// Every is how long errors are counted, from the first on.
	Every time.Duration
	// Pattern is a regular expression for the error's text.
	Pattern string
	// Level of the summary.
	Level slog.Level
	// ShowFirst logs the first error at once.
	ShowFirst bool
}

// consolidator counts errors by rule.
type consolidator struct {
	log   *slog.Logger
	rules []*consolidated
}

// consolidated is a rule with its count.
type consolidated struct {
	ConsolidateRule
	match *regexp.Regexp

	mu    sync.Mutex
	count int
	timer *time.Timer
}

// newConsolidator compiles the rules.
func newConsolidator(rules []ConsolidateRule, log *slog.Logger) (*consolidator, error) {
	c := &consolidator{log: log}
	for _, rule := range rules {
		match, err := regexp.Compile(rule.Pattern)
		if err != nil {
			return nil, fmt.Errorf("errors: consolidate %q: %w", rule.Pattern, err)
		}
		if rule.Every <= 0 {
			return nil, fmt.Errorf("errors: consolidate %q: %v: must be longer than nothing", rule.Pattern, rule.Every)
		}
		c.rules = append(c.rules, &consolidated{ConsolidateRule: rule, match: match})
	}
	return c, nil
}

// takes counts an error under the first rule that matches; false means that it
// is to be logged by itself.
func (c *consolidator) takes(text string) bool {
	for _, rule := range c.rules {
		if rule.match.MatchString(text) {
			return !rule.add(c) || !rule.ShowFirst
		}
	}
	return false
}

// add counts one error and reports whether it is the first.
func (r *consolidated) add(c *consolidator) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if r.count > 1 {
		return false
	}
	r.timer = time.AfterFunc(r.Every, func() { r.report(c) })
	return true
}

// report writes the summary. One error that was shown needs none.
func (r *consolidated) report(c *consolidator) {
	r.mu.Lock()
	n := r.count
	r.count = 0
	r.mu.Unlock()
	if n == 0 || n == 1 && r.ShowFirst {
		return
	}
	c.log.Log(context.Background(), r.Level, fmt.Sprintf("%d errors like '%s' occurred in last %s", n, r.Pattern, r.Every))
}

// close reports what is left.
func (c *consolidator) close() {
	for _, rule := range c.rules {
		rule.mu.Lock()
		if rule.timer != nil {
			rule.timer.Stop()
		}
		rule.mu.Unlock()
		rule.report(c)
	}
}
