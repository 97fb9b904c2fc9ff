package manifest

import (
	"bytes"
	"encoding/json"
	"regexp"
)

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
