package iptables

import (
	"bytes"

	"signpost/vip"
)

// payload is the input of one iptables-restore, and whose each line is.
type payload struct {
	text   bytes.Buffer
	owners []vip.Frontend // by line number less one
}

func newPayload(t table) *payload {
	p := &payload{}
	p.line("*"+t.String(), vip.Frontend{})
	return p
}

// line adds a line; nobody's if the owner is zero.
func (p *payload) line(text string, owner vip.Frontend) {
	p.text.WriteString(text)
	p.text.WriteByte('\n')
	p.owners = append(p.owners, owner)
}

// declare creates a chain, or empties it.
func (p *payload) declare(name string) { p.line(":"+name+" - [0:0]", vip.Frontend{}) }

func (p *payload) end() []byte {
	p.line("COMMIT", vip.Frontend{})
	return p.text.Bytes()
}

// owner returns whose a line is; zero: nobody's.
func (p *payload) owner(line int) vip.Frontend {
	if line < 1 || line > len(p.owners) {
		return vip.Frontend{}
	}
	return p.owners[line-1]
}

// rewrite is the payload that writes chains and jumps.
func rewrite(t table, chains []chain, jumps []string) *payload {
	p := newPayload(t)
	for _, c := range chains {
		p.declare(c.name)
	}
	for _, c := range chains {
		for _, r := range c.rules {
			p.line("-A "+c.name+" "+r.text, r.owner)
		}
	}
	for _, text := range jumps {
		p.line(text, vip.Frontend{})
	}
	return p
}

// removal is the payload that deletes chains to which nothing leads any more
// after some lines have been carried out. They are emptied first: one may lead
// to another.
func removal(t table, names, lines []string) *payload {
	p := newPayload(t)
	for _, name := range names {
		p.declare(name)
	}
	for _, text := range append(lines[:len(lines):len(lines)], prefixed("-X ", names)...) {
		p.line(text, vip.Frontend{})
	}
	return p
}

func prefixed(with string, names []string) []string {
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = with + name
	}
	return lines
}
