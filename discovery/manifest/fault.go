package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
)

// fault is something wrong in a document.
type fault struct {
	line   int // of the document, counted from 0
	field  string
	reason string
}

// fault places a problem at the line of its field.
func (s source) fault(path, reason string) fault {
	return fault{line: lineOf(s.text, s.json, joinPath(s.prefix, path)), field: path, reason: reason}
}

func jsonErrorLine(text []byte, err error) int {
	offset := int64(len(text))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = min(syntax.Offset, offset)
	}
	return bytes.Count(bytes.TrimRight(text[:offset], "\n"), []byte{'\n'})
}

var yamlErrorLine = regexp.MustCompile(`line (\d+): `)

// yamlError takes the line out of a YAML error's text: it counts from the
// document's beginning, which is not what the reader sees.
func yamlError(err error) (line int, reason string) {
	reason = err.Error()
	if m := yamlErrorLine.FindStringSubmatch(reason); m != nil {
		line, _ = strconv.Atoi(m[1])
		reason = strings.Replace(reason, m[0], "", 1)
	}
	reason = strings.TrimPrefix(reason, "yaml: ")
	reason = strings.Join(strings.Fields(strings.TrimPrefix(reason, "unmarshal errors:")), " ")
	return max(line-1, 0), reason
}

// strictFault makes a warning of `unknown field "spec.selecter"`.
func (s source) strictFault(err error) fault {
	var at kjson.FieldError
	if !errors.As(err, &at) {
		return s.fault("", err.Error())
	}
	what, _, _ := strings.Cut(err.Error(), " \"")
	return s.fault(at.FieldPath(), what+", ignored")
}

// decodeFault makes a problem of a JSON decoding error: usually a value of
// the wrong type.
func (s source) decodeFault(text []byte, err error) fault {
	var wrongType *json.UnmarshalTypeError
	if !errors.As(err, &wrongType) {
		return s.fault("", "decoding: "+err.Error())
	}
	path := cmp.Or(pathAt(text, wrongType.Offset), wrongType.Field)
	return s.fault(path, fmt.Sprintf("Invalid value: must be %s, is %s", typeName(wrongType.Type.Kind().String()), wrongType.Value))
}

// typeName says what a Go kind is in a manifest.
func typeName(kind string) string {
	switch {
	case strings.HasPrefix(kind, "int") || strings.HasPrefix(kind, "uint"):
		return "a whole number (" + kind + ")"
	case kind == "bool":
		return "true or false"
	case kind == "slice":
		return "a list"
	case kind == "map" || kind == "struct":
		return "a mapping"
	default:
		return "a " + kind
	}
}
