package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is something wrong with the folder, in words for a person.
type Problem struct {
	File   string // with the folder's name before it
	Line   int    // counted from 1; 0: the file as a whole
	Object string // such as Service "default/web"; empty if it isn't one object
	Field  string // such as spec.ports[0].nodePort; empty if it isn't one field
	Reason string
	// Warning is true if the object is used all the same.
	Warning bool
}

// String returns the problem in one line:
//
//	examples/bad.yaml:7: Service "default/bad-range": spec.clusterIPs[0]: Invalid value: "192.0.2.7": …
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	for _, part := range []string{p.Object, p.Field, p.Reason} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	return b.String()
}

func (p Problem) compare(o Problem) int {
	return cmp.Or(cmp.Compare(p.File, o.File), cmp.Compare(p.Line, o.Line), cmp.Compare(p.Object, o.Object),
		cmp.Compare(p.Field, o.Field), cmp.Compare(p.Reason, o.Reason))
}

// finding is a problem whose line moves with its document.
type finding struct {
	Problem
	doc  *document
	line int // of the document
}

func (f finding) problem() Problem {
	if f.doc != nil {
		f.Problem.Line = f.doc.line + f.line
	}
	return f.Problem
}

func (d *document) finding(f fault, o *object, warning bool) finding {
	p := Problem{File: d.file.path, Field: f.field, Reason: f.reason, Warning: warning}
	if o != nil {
		p.Object = o.id.String()
	}
	return finding{Problem: p, doc: d, line: f.line}
}

// ledger keeps the current findings by whom they are about, and tells what
// came and went.
type ledger struct {
	byOwner map[any][]finding
	report  func(p Problem, solved bool)
}

func newLedger(report func(Problem, bool)) *ledger {
	return &ledger{byOwner: map[any][]finding{}, report: report}
}

// set replaces an owner's findings.
func (l *ledger) set(owner any, now []finding) {
	before := l.byOwner[owner]
	if len(before)+len(now) == 0 {
		return
	}
	for _, f := range now {
		if !contains(before, f) {
			l.report(f.problem(), false)
		}
	}
	for _, f := range before {
		if !contains(now, f) {
			l.report(f.problem(), true)
		}
	}
	if len(now) == 0 {
		delete(l.byOwner, owner)
		return
	}
	l.byOwner[owner] = now
}

// contains looks for a finding whatever line it is at now.
func contains(list []finding, f finding) bool {
	return slices.ContainsFunc(list, func(other finding) bool { return other.Problem == f.Problem })
}

func (l *ledger) problems() []Problem {
	var all []Problem
	for _, list := range l.byOwner {
		for _, f := range list {
			all = append(all, f.problem())
		}
	}
	slices.SortFunc(all, Problem.compare)
	return all
}
