package manifest

import (
	"bytes"
	"strings"
)

// plainToJSON turns the YAML that programs and most people write, block
// mappings and sequences and one-line values, into JSON. It reports false for
// everything that takes more than a look to be sure of its meaning, which is
// then the YAML library's. That library costs 50 µs a pod, nearly all there is
// to spend at the start of a large folder; this costs about 2. A fuzz test
// holds the two together.
func plainToJSON(text []byte) ([]byte, bool) {
	if !allOf(text, isPrintable) {
		return nil, false
	}
	p := plain{rest: text, out: make([]byte, 0, len(text)+len(text)/4)}
	p.next()
	if p.done || p.dash() {
		return nil, false
	}
	p.mapping(p.indent, 0)
	return p.out, p.done && !p.failed
}

// plain is a reader with the line that it stands on.
type plain struct {
	rest   []byte // after the line
	line   []byte // its content, without indentation
	indent int
	done   bool // there is no line any more, or it failed
	failed bool
	out    []byte
}

const (
	plainDepth = 64
	plainKey   = 512 // YAML allows no key of over 1,024 characters without a mark
)

func (p *plain) fail() { p.failed, p.done = true, true }

// next goes to the next line that is neither empty nor a comment.
func (p *plain) next() {
	for len(p.rest) > 0 && !p.failed {
		line, rest, _ := bytes.Cut(p.rest, []byte{'\n'})
		p.rest = rest
		p.line = bytes.TrimLeft(line, " ")
		p.indent = len(line) - len(p.line)
		p.line = bytes.TrimRight(p.line, " ")
		if len(p.line) > 0 && p.line[0] != '#' {
			return
		}
	}
	p.done = true
}

func (p *plain) dash() bool { return p.line[0] == '-' && (len(p.line) == 1 || p.line[1] == ' ') }

// block reads whatever begins at the line, which is indented more than its parent.
func (p *plain) block(depth int) {
	switch {
	case depth > plainDepth:
		p.fail()
	case p.dash():
		p.sequence(p.indent, depth)
	default:
		p.mapping(p.indent, depth)
	}
}

func (p *plain) mapping(indent, depth int) {
	p.out = append(p.out, '{')
	var keys keySet
	for !p.done && p.indent == indent && !p.dash() {
		key, value, ok := cutKey(p.line)
		if len(keys) > 0 {
			p.out = append(p.out, ',')
		}
		if !ok || !keys.add(key) {
			p.fail()
			return
		}
		p.key(key)
		p.value(value, indent, depth, true)
	}
	p.close(indent, '}')
}

// value reads what follows a key or a dash: a scalar on the line, or a block
// below it. A sequence below a key may stand in the key's own column.
func (p *plain) value(value []byte, indent, depth int, ofKey bool) {
	if len(value) > 0 {
		p.onLine(value, depth)
		p.next()
		return
	}
	p.next()
	switch {
	case !p.done && p.indent > indent:
		p.block(depth + 1)
	case !p.done && ofKey && p.indent == indent && p.dash():
		p.sequence(indent, depth+1)
	default:
		p.out = append(p.out, "null"...)
	}
}

// onLine reads a value that ends with its line.
func (p *plain) onLine(value []byte, depth int) {
	if c := value[0]; c != '{' && c != '[' {
		p.scalar(value)
		return
	}
	if rest := p.flow(value, depth+1); len(rest) > 0 {
		p.fail()
	}
}

func (p *plain) sequence(indent, depth int) {
	p.out = append(p.out, '[')
	for first := true; !p.done && p.indent == indent && p.dash(); first = false {
		if !first {
			p.out = append(p.out, ',')
		}
		value := bytes.TrimLeft(p.line[1:], " ")
		if _, _, isKey := cutKey(value); isKey {
			p.indent, p.line = indent+len(p.line)-len(value), value
			p.mapping(p.indent, depth+1)
			continue
		}
		p.value(value, indent, depth, false)
	}
	p.close(indent, ']')
}

// close ends a block: the line that ended it must belong to one around it.
func (p *plain) close(indent int, end byte) {
	if !p.done && p.indent > indent {
		p.fail()
	}
	p.out = append(p.out, end)
}

// cutKey cuts "key: value" and "key:".
func cutKey(line []byte) (key, value []byte, ok bool) {
	at := bytes.IndexByte(line, ':')
	if at <= 0 || at > plainKey || !isLetter(line[0]) || (at+1 < len(line) && line[at+1] != ' ') {
		return nil, nil, false
	}
	key = line[:at]
	for _, c := range key {
		if !isLetter(c) && !isDigit(c) && strings.IndexByte("_./-", c) < 0 {
			return nil, nil, false
		}
	}
	return key, bytes.TrimLeft(line[at+1:], " "), !hasMeaning(key)
}

func (p *plain) scalar(s []byte) {
	last := len(s) - 1
	switch c := s[0]; {
	case string(s) == "{}", string(s) == "[]", string(s) == "true", string(s) == "false", string(s) == "null":
		p.out = append(p.out, s...)
	case (c == '"' || c == '\'') && last > 0 && s[last] == c && allOf(s[1:last], isQuotable):
		p.quote(s[1:last])
	case isDigit(c):
		p.number(s)
	case (isLetter(c) || c == '/') && s[last] != ':' && allOf(s, isPlain) && !bytes.Contains(s, []byte(": ")) && !hasMeaning(s):
		p.quote(s)
	default:
		p.fail()
	}
}

func (p *plain) key(k []byte) { p.out = append(append(append(p.out, '"'), k...), '"', ':') }

func (p *plain) quote(s []byte) { p.out = append(append(append(p.out, '"'), s...), '"') }

// number reads what begins with a digit: a whole number, or an IPv4 address
// with or without a prefix length. All else has too many meanings in YAML.
func (p *plain) number(s []byte) {
	const safe = 18 // digits that fit an int64
	digits, dots := 0, 0
	addr, length, isPrefix := bytes.Cut(s, []byte{'/'})
	for _, c := range addr {
		switch {
		case isDigit(c):
			digits++
		case c == '.':
			dots++
		}
	}
	whole := digits == len(s) && digits <= safe && (s[0] != '0' || digits == 1)
	switch {
	case whole:
		p.out = append(p.out, s...)
	case dots == 3 && digits+dots == len(addr) && (!isPrefix || len(length) > 0 && allOf(length, isDigit)):
		p.quote(s)
	default:
		p.fail()
	}
}

// hasMeaning reports whether YAML 1.1 reads a word as something else than a string.
func hasMeaning(word []byte) bool {
	const longest = len("false")
	if len(word) > longest {
		return false
	}
	switch strings.ToLower(string(word)) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	default:
		return false
	}
}

func allOf(s []byte, is func(byte) bool) bool {
	for _, c := range s {
		if !is(c) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// isPrintable leaves out what YAML may refuse even in a comment.
func isPrintable(c byte) bool { return c >= ' ' && c < 0x7f || c == '\n' }

// isPlain tells what may stand in a string without quotes.
func isPlain(c byte) bool {
	return isLetter(c) || isDigit(c) || strings.IndexByte(" _./:+=,@-", c) >= 0
}

// isQuotable tells what means itself between quotes of either kind and in JSON.
func isQuotable(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\'' && c != '\\' }
