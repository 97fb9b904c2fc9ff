package manifest

import "bytes"

// flow reads a value in braces, brackets or quotes, or a plain scalar, as it
// stands inside a one-line {…} or […], and returns what follows it. Whatever is
// not quite simple fails, and is the library's.
func (p *plain) flow(s []byte, depth int) []byte {
	switch {
	case len(s) == 0 || depth > plainDepth || p.failed:
		p.fail()
		return nil
	case s[0] == '{':
		return p.flowMapping(s[1:], depth)
	case s[0] == '[':
		return p.flowSequence(s[1:], depth)
	case s[0] == '"' || s[0] == '\'':
		return p.flowQuoted(s)
	}
	end := bytes.IndexAny(s, ",]}")
	if end <= 0 {
		p.fail()
		return nil
	}
	word := bytes.TrimRight(s[:end], " ")
	if bytes.ContainsAny(word, "{[:") {
		p.fail()
		return nil
	}
	p.scalar(word)
	return s[end:]
}

func (p *plain) flowQuoted(s []byte) []byte {
	end := bytes.IndexByte(s[1:], s[0]) + 1
	if end <= 0 || !allOf(s[1:end], isQuotable) {
		p.fail()
		return nil
	}
	p.quote(s[1:end])
	return s[end+1:]
}

func (p *plain) flowMapping(s []byte, depth int) []byte {
	p.out = append(p.out, '{')
	var keys keySet
	return p.flowItems(s, '}', func(s []byte) []byte {
		at := bytes.IndexByte(s, ':')
		if at <= 0 || at+1 >= len(s) {
			p.fail()
			return nil
		}
		key, _, ok := cutKey(s[:at+1])
		value := bytes.TrimLeft(s[at+1:], " ")
		if !ok || len(value) == 0 || s[at+1] != ' ' || !keys.add(key) {
			p.fail()
			return nil
		}
		p.key(key)
		return p.flow(value, depth+1)
	})
}

func (p *plain) flowSequence(s []byte, depth int) []byte {
	p.out = append(p.out, '[')
	return p.flowItems(s, ']', func(s []byte) []byte { return p.flow(s, depth+1) })
}

// flowItems reads items up to the closing bracket and returns what follows it.
func (p *plain) flowItems(s []byte, end byte, item func([]byte) []byte) []byte {
	for first := true; !p.failed; first = false {
		s = bytes.TrimLeft(s, " ")
		if first && len(s) > 0 && s[0] == end {
			break
		}
		if !first {
			p.out = append(p.out, ',')
		}
		s = bytes.TrimLeft(item(s), " ")
		switch {
		case len(s) > 0 && s[0] == end:
			p.out = append(p.out, end)
			return s[1:]
		case len(s) > 0 && s[0] == ',':
			s = s[1:]
		default:
			p.fail()
		}
	}
	p.out = append(p.out, end)
	if len(s) == 0 {
		return nil
	}
	return s[1:]
}

// keySet finds keys that stand twice in a mapping. Mappings are short.
type keySet [][]byte

func (k *keySet) add(key []byte) bool {
	for _, have := range *k {
		if bytes.Equal(have, key) {
			return false
		}
	}
	*k = append(*k, key)
	return true
}
