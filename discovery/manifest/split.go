package manifest

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"path/filepath"
	"regexp"
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

var jsonListKind = regexp.MustCompile(`"kind"\s*:\s*"\w*List"`)

// jsonItems returns a list's items, or nil if the value is no list of the
// usual shape.
func jsonItems(c chunk) []chunk {
	const margin = 1 << 10 // the kind stands at the beginning or at the end
	head, tail := c.text[:min(margin, len(c.text))], c.text[max(0, len(c.text)-margin):]
	if !jsonListKind.Match(head) && !jsonListKind.Match(tail) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(c.text))
	kind, chunks := "", []chunk(nil)
	if !enterObject(d) {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil
		}
		if key == "items" {
			chunks = c.jsonElements(d)
			continue
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil
		}
		if key == "kind" {
			kind = string(value)
		}
	}
	if len(kind) < len(`"List"`) || kind[len(kind)-len(`List"`):] != `List"` {
		return nil
	}
	return chunks
}

func enterObject(d *json.Decoder) bool {
	t, err := d.Token()
	return err == nil && t == json.Delim('{')
}

// jsonElements reads an array into chunks; nil if it is none.
func (c chunk) jsonElements(d *json.Decoder) []chunk {
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil
	}
	chunks := []chunk{}
	lines := lineCounter{text: c.text, line: c.line}
	for d.More() {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil
		}
		chunks = append(chunks, chunk{line: lines.at(int(d.InputOffset()) - len(value)), text: value, json: true})
	}
	if _, err := d.Token(); err != nil {
		return nil
	}
	return chunks
}

var yamlListKind = regexp.MustCompile(`(?m)^kind: *"?\w*List"? *\r?$`)

// splitYAMLList cuts a list into its items if it is written as kubectl prints
// it: "items:" at a line's beginning, then items that begin with "- " in one
// column. Every line that begins so in that column is a new item, since
// whatever belongs to an item is indented more. Documents with anchors stay
// whole: an item might refer to another.
func splitYAMLList(c chunk) []chunk {
	whole := []chunk{c}
	at := lineIndex(c.text, []byte("items:"))
	if at < 0 || bytes.ContainsAny(c.text, "&*") {
		return whole
	}
	start := nextLine(c.text, at)
	if start < 0 || len(bytes.TrimSpace(c.text[at+len("items:"):start])) > 0 {
		return whole
	}
	end := listEnd(c.text, start)
	if !yamlListKind.Match(c.text[:at]) && !yamlListKind.Match(c.text[end:]) {
		return whole
	}
	items := c.yamlItems(start, end)
	if items == nil {
		return whole
	}
	return items
}

// lineIndex finds a line that begins with a prefix.
func lineIndex(text, prefix []byte) int {
	if bytes.HasPrefix(text, prefix) {
		return 0
	}
	if n := bytes.Index(text, append([]byte{'\n'}, prefix...)); n >= 0 {
		return n + 1
	}
	return -1
}

// listEnd is where the next key of the list object begins.
func listEnd(text []byte, start int) int {
	for at := start; at >= 0 && at < len(text); at = nextLine(text, at) {
		switch text[at] {
		case ' ', '-', '#', '\n', '\r':
		default:
			return at
		}
	}
	return len(text)
}

// yamlItems cuts text[start:end] at the items' dashes and blanks them out, so
// that each is a document with its columns unchanged. It returns nil for what
// it does not understand.
func (c chunk) yamlItems(start, end int) []chunk {
	first := firstContent(c.text[start:end]) + start
	if first == end || c.text[first] != '-' {
		return nil
	}
	lineStart := bytes.LastIndexByte(c.text[:first], '\n') + 1
	dash := append(bytes.Clone(c.text[lineStart:first]), '-', ' ')
	var chunks []chunk
	line, from := c.line+bytes.Count(c.text[:start], []byte{'\n'}), start
	for at := start; ; at = nextLine(c.text[:end], at) {
		last := at < 0 || at >= end
		if last || (at > lineStart && bytes.HasPrefix(c.text[at:], dash)) {
			stop := at
			if last {
				stop = end
			}
			chunks = append(chunks, chunk{line: line, text: c.text[from:stop]})
			line += bytes.Count(c.text[from:stop], []byte{'\n'})
			from = stop
		}
		if last {
			break
		}
	}
	for _, item := range chunks {
		item.text[firstContent(item.text)] = ' '
	}
	return chunks
}
