package corefile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one problem of a Corefile.
type Error struct {
	File    string
	Line    int    // from 1
	Subject string // the directive, or the key of the server block; may be empty
	Problem string // what is wrong and what would be right
}

// Error returns "Corefile:12: cache: ttl 99999: must be between 0 and 3600".
func (e *Error) Error() string {
	if e.Subject == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Problem)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Subject, e.Problem)
}

// Errors is every problem of a Corefile, in the order of its lines.
type Errors []*Error

// Error returns the problems, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the problems by file and line; a file's problems come where
// the first of them was found. Nothing is nil.
func (e Errors) sorted() error {
	if len(e) == 0 {
		return nil
	}
	fileOrder := map[string]int{}
	for _, one := range e {
		if _, seen := fileOrder[one.File]; !seen {
			fileOrder[one.File] = len(fileOrder)
		}
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(fileOrder[a.File], fileOrder[b.File]), cmp.Compare(a.Line, b.Line))
	})
	return e
}
