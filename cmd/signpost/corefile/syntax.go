package corefile

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// line is one line of a Corefile: a word, its arguments, and the lines in its
// braces.
type line struct {
	file string
	num  int
	name string
	args []string
	body []*line
}

// block is a server block as it is written.
type block struct {
	file  string
	num   int
	keys  []string
	lines []*line // in the order of the file
}

// read splits a Corefile into blocks: snippets and imports are in place,
// environment variables are replaced. After a syntax error the blocks before
// it are returned with the error.
func read(file string, text []byte) ([]block, *Error) {
	parsed, err := caddyfile.Parse(file, bytes.NewReader(text), nil)
	positions := keyLines(file, text)
	blocks := make([]block, 0, len(parsed))
	for _, p := range parsed {
		b := block{file: file, keys: p.Keys}
		for _, tokens := range p.Tokens {
			b.lines = append(b.lines, split(file, tokens)...)
		}
		slices.SortStableFunc(b.lines, func(a, c *line) int {
			return cmp.Or(cmp.Compare(a.file, c.file), cmp.Compare(a.num, c.num), cmp.Compare(a.name, c.name))
		})
		b.num = positions.take(p.Keys, b.lines)
		blocks = append(blocks, b)
	}
	if err != nil {
		return blocks, syntaxError(file, err)
	}
	return blocks, nil
}

// split makes lines of the tokens of one directive, which may stand several
// times in its block.
func split(file string, tokens []caddyfile.Token) []*line {
	s := splitter{file: file, tokens: tokens}
	var all []*line
	for s.at < len(tokens) {
		all = append(all, s.line())
	}
	return all
}

type splitter struct {
	file   string
	tokens []caddyfile.Token
	at     int
}

// line takes one line and the block that follows it.
func (s *splitter) line() *line {
	first := s.tokens[s.at]
	l := &line{file: cmp.Or(first.File, s.file), num: first.Line, name: first.Text}
	for s.at++; s.at < len(s.tokens); s.at++ {
		text := s.tokens[s.at].Text
		if s.newLine() && text != "{" {
			return l
		}
		switch text {
		case "{":
			s.at++
			l.body = s.body()
			return l
		case "}": // closes the block around this line
			return l
		default:
			l.args = append(l.args, text)
		}
	}
	return l
}

// body takes lines up to the closing brace, and the brace.
func (s *splitter) body() []*line {
	var lines []*line
	for s.at < len(s.tokens) {
		if s.tokens[s.at].Text == "}" {
			s.at++
			break
		}
		lines = append(lines, s.line())
	}
	return lines
}

// newLine reports whether the present token begins a line. A snippet's lines
// may have lower numbers than the line before them.
func (s *splitter) newLine() bool {
	before, now := s.tokens[s.at-1], s.tokens[s.at]
	return before.File != now.File || before.Line+strings.Count(before.Text, "\n") != now.Line
}

// positions holds the lines on which a word stands outside all braces. The
// parser does not keep them for the keys of a server block.
type positions map[string][]int

func keyLines(file string, text []byte) positions {
	found := positions{}
	depth := 0
	for d := caddyfile.NewDispenser(file, bytes.NewReader(text)); d.Next(); {
		switch d.Val() {
		case "{":
			depth++
		case "}":
			depth--
		default:
			if depth == 0 {
				key := strings.TrimSuffix(expand(d.Val()), ",")
				found[key] = append(found[key], d.Line())
			}
		}
	}
	return found
}

var variable = regexp.MustCompile(`\{\$([^{}]+)\}|\{%([^%]+)%\}`)

// expand replaces environment variables as the parser does.
func expand(word string) string {
	return variable.ReplaceAllStringFunc(word, func(v string) string { return os.Getenv(strings.Trim(v, "{}$%")) })
}

// take returns the line of a block's first key, and uses it up. A key that an
// import or a variable brought has the line of the block's first directive.
func (p positions) take(keys []string, lines []*line) int {
	if at := p[keys[0]]; len(at) > 0 {
		p[keys[0]] = at[1:]
		return at[0]
	}
	if len(lines) > 0 {
		return lines[0].num
	}
	return 1
}

var parserMessage = regexp.MustCompile(`(?s)^(.*):(\d+) - (?:Error during parsing|Syntax error): (.*)$`)

// syntaxError brings a message of the parser into this program's form.
func syntaxError(file string, err error) *Error {
	parts := parserMessage.FindStringSubmatch(err.Error())
	if parts == nil {
		return &Error{File: file, Line: 1, Problem: fmt.Sprintf("reading the file: %v", err)}
	}
	num, _ := strconv.Atoi(parts[2]) // digits by the expression
	problem := strings.ToLower(parts[3][:min(1, len(parts[3]))]) + parts[3][min(1, len(parts[3])):]
	return &Error{File: parts[1], Line: max(num, 1), Problem: problem}
}
