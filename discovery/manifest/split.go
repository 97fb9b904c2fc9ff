package manifest

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"path/filepath"
)

// chunk is the text of one document, or of one item of a list.
type chunk struct {
	line int // of the file, counted from 1, at which the text begins
	text []byte
	json bool
	hash uint64
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// split cuts a file into documents, and lists that are written in the usual
// way into their items, so that a change of one object of a large file leaves
// the others unparsed. It works on text alone and never fails: what can't be
// cut comes as one piece. It may change the data.
func split(path string, data []byte, seed maphash.Seed) []chunk {
	data = bytes.TrimPrefix(data, byteOrderMark)
	var chunks []chunk
	for _, c := range splitYAML(data) {
		first := firstContent(c.text)
		switch {
		case first == len(c.text):
			continue // only comments
		case c.text[first] == '{' || filepath.Ext(path) == ".json":
			chunks = append(chunks, splitJSON(c)...)
		default:
			chunks = append(chunks, splitYAMLList(c)...)
		}
	}
	for i := range chunks {
		chunks[i].hash = maphash.Bytes(seed, chunks[i].text)
	}
	return chunks
}

// splitYAML cuts at the markers "---" and "...", which stand at a line's
// beginning and can't stand there inside a document.
func splitYAML(data []byte) []chunk {
	var chunks []chunk
	line, start := 1, 0
	dashes, dots := markers{data: data, marker: "---"}, markers{data: data, marker: "..."}
	for {
		at := min(dashes.after(start), dots.after(start))
		chunks = append(chunks, chunk{line: line, text: data[start:at]})
		if at == len(data) {
			return chunks
		}
		line += bytes.Count(data[start:at], []byte{'\n'})
		start = at + len(dashes.marker)
	}
}

// markers finds the lines that are a marker, looking at each byte once.
type markers struct {
	data   []byte
	marker string
	found  int // the last answer
	asked  bool
}

// after returns the offset of the first marker line at or after from, or the
// data's length.
func (m *markers) after(from int) int {
	if m.asked && m.found >= from {
		return m.found
	}
	m.asked, m.found = true, len(m.data)
	for at := from; at < len(m.data); {
		if (at == 0 || m.data[at-1] == '\n') && isMarker(m.data[at:], []byte(m.marker)) {
			m.found = at
			break
		}
		next := bytes.Index(m.data[at:], []byte("\n"+m.marker))
		if next < 0 {
			break
		}
		at += next + 1
	}
	return m.found
}

func nextLine(data []byte, at int) int {
	if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return -1
}

func isMarker(rest, marker []byte) bool {
	after, found := bytes.CutPrefix(rest, marker)
	return found && (len(after) == 0 || bytes.IndexByte([]byte(" \t\r\n"), after[0]) >= 0)
}

// firstContent is the offset of the first byte that is neither white space
// nor part of a comment or a directive.
func firstContent(text []byte) int {
	for at := 0; at >= 0 && at < len(text); at = nextLine(text, at) {
		rest := bytes.TrimLeft(text[at:], " \t\r")
		if len(rest) > 0 && rest[0] != '\n' && rest[0] != '#' && rest[0] != '%' {
			return len(text) - len(rest)
		}
	}
	return len(text)
}

// splitJSON cuts a text into its JSON values, and lists into their items.
// Where that fails, the rest comes in one piece.
func splitJSON(c chunk) []chunk {
	var chunks []chunk
	d := json.NewDecoder(bytes.NewReader(c.text))
	lines := lineCounter{text: c.text, line: c.line}
	for done := 0; ; done = int(d.InputOffset()) {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			if rest := c.text[done:]; firstContent(rest) < len(rest) {
				chunks = append(chunks, chunk{line: lines.at(done), text: rest, json: looksLikeJSON(c)})
			}
			return chunks
		}
		one := chunk{line: lines.at(int(d.InputOffset()) - len(value)), text: value, json: true}
		if items := jsonItems(one); items != nil {
			chunks = append(chunks, items...)
			continue
		}
		chunks = append(chunks, one)
	}
}

// looksLikeJSON tells JSON with a fault from a YAML flow mapping without quotes.
func looksLikeJSON(c chunk) bool {
	at := firstContent(c.text)
	inner := bytes.TrimLeft(c.text[min(at+1, len(c.text)):], " \t\r\n")
	return len(inner) > 0 && inner[0] == '"'
}

// lineCounter tells the lines of ascending offsets, looking at each byte once.
type lineCounter struct {
	text          []byte
	line, counted int
}

func (l *lineCounter) at(offset int) int {
	l.line += bytes.Count(l.text[l.counted:offset], []byte{'\n'})
	l.counted = offset
	return l.line
}
