package manifest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// lineOf finds the line, counted from 0, of a field in a document, or of the
// nearest thing around it that is there: what a default filled in, or what is
// missing, has no line of its own.
func lineOf(text []byte, isJSON bool, path string) int {
	steps := pathSteps(path)
	if isJSON {
		offset := jsonOffset(text, steps)
		return bytes.Count(text[:offset], []byte{'\n'})
	}
	var doc yamlv3.Node
	if err := yamlv3.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return bytes.Count(text[:firstContent(text)], []byte{'\n'})
	}
	return max(yamlLine(doc.Content[0], steps), doc.Content[0].Line) - 1
}

// pathSteps cuts "spec.ports[1].name" into spec, ports, 1, name.
func pathSteps(path string) []string {
	var steps []string
	for path != "" {
		switch path[0] {
		case '.':
			path = path[1:]
		case '[':
			inside, rest, _ := strings.Cut(path[1:], "]")
			steps, path = append(steps, inside), rest
		default:
			n := strings.IndexAny(path, ".[")
			if n < 0 {
				n = len(path)
			}
			steps, path = append(steps, path[:n]), path[n:]
		}
	}
	return steps
}

// spellings lists the steps themselves, and where the first is a list that has
// a single-valued twin (clusterIPs and clusterIP, podIPs and podIP), the twin.
func spellings(steps []string) [][]string {
	all := [][]string{steps}
	if len(steps) == 0 {
		return all
	}
	if singular, isPlural := strings.CutSuffix(steps[0], "s"); isPlural {
		all = append(all, []string{singular})
	}
	return all
}

// yamlLine returns the line, counted from 1, of the last step that is there; 0
// if not even the first is.
func yamlLine(n *yamlv3.Node, steps []string) int {
	for _, steps := range spellings(steps) {
		if len(steps) == 0 {
			break
		}
		if key, value := yamlChild(n, steps[0]); value != nil {
			return max(yamlLine(value, steps[1:]), key.Line)
		}
	}
	return 0
}

// yamlChild returns a mapping's key and value, or a sequence's element twice.
func yamlChild(n *yamlv3.Node, step string) (key, value *yamlv3.Node) {
	switch n.Kind {
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yamlv3.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}

// jsonOffset is yamlLine for JSON: the offset of the value.
func jsonOffset(text []byte, steps []string) int {
	offset := firstContent(text)
	for _, steps := range spellings(steps) {
		if len(steps) == 0 {
			break
		}
		if value, ok := jsonChild(text, steps[0]); ok {
			return value.offset + jsonOffset(value.text, steps[1:])
		}
	}
	return offset
}

type jsonValue struct {
	offset int
	text   []byte
}

// jsonChild finds the value of a key, or the element of an index.
func jsonChild(text []byte, step string) (jsonValue, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	open, err := d.Token()
	if err != nil || (open != json.Delim('{') && open != json.Delim('[')) {
		return jsonValue{}, false
	}
	for i := 0; d.More(); i++ {
		name := strconv.Itoa(i)
		if open == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return jsonValue{}, false
			}
			name, _ = key.(string)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return jsonValue{}, false
		}
		if name == step {
			return jsonValue{offset: int(d.InputOffset()) - len(value), text: value}, true
		}
	}
	return jsonValue{}, false
}

// pathAt returns the path of the value that ends at or after an offset, in the
// form of a field path.
func pathAt(text []byte, offset int64) string {
	d := json.NewDecoder(bytes.NewReader(text))
	var p jsonPath
	for {
		t, err := d.Token()
		if err != nil {
			return ""
		}
		if isValue := p.token(t); isValue && d.InputOffset() >= offset {
			return p.String()
		}
		if delim, ok := t.(json.Delim); ok {
			p.nest(delim)
		}
	}
}

// jsonPath is where a reader of JSON tokens is, from the outermost level in.
type jsonPath []jsonLevel

type jsonLevel struct {
	isArray  bool
	index    int    // of an array's element
	key      string // of an object's member
	keyGiven bool   // the member's value comes next
}

// token takes the next token and reports whether a value begins with it.
func (p jsonPath) token(t json.Token) (isValue bool) {
	if len(p) == 0 {
		return true
	}
	l := &p[len(p)-1]
	switch {
	case t == json.Delim('}') || t == json.Delim(']'):
		return false
	case l.isArray:
		l.index++
	case !l.keyGiven:
		l.key, _ = t.(string)
		l.keyGiven = true
		return false
	}
	l.keyGiven = false
	return true
}

// nest follows a bracket in or out.
func (p *jsonPath) nest(d json.Delim) {
	if d == '{' || d == '[' {
		*p = append(*p, jsonLevel{isArray: d == '[', index: -1})
		return
	}
	*p = (*p)[:len(*p)-1]
}

// String returns the path as in spec.ports[1].port.
func (p jsonPath) String() string {
	var b strings.Builder
	for i, l := range p {
		switch {
		case l.isArray:
			b.WriteString("[" + strconv.Itoa(l.index) + "]")
		case i > 0:
			b.WriteString("." + l.key)
		default:
			b.WriteString(l.key)
		}
	}
	return b.String()
}
