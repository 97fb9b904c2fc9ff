package printer

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"signpost/cmd/signpost/admin"
)

// Format is the value of -o.
type Format string

// The formats.
const (
	Table Format = ""
	Wide  Format = "wide"
	YAML  Format = "yaml"
	JSON  Format = "json"
)

// ParseFormat reads the value of -o.
func ParseFormat(text string) (Format, error) {
	switch f := Format(text); f {
	case Table, Wide, YAML, JSON:
		return f, nil
	default:
		return "", fmt.Errorf("output format %q: must be one of wide, yaml, json", text)
	}
}

// Printer prints the objects of one resource. It remembers how wide its columns
// are, so that the lines of a watch stand below each other.
type Printer struct {
	Resource string // as in package admin
	Format   Format
	// AllNamespaces adds the column NAMESPACE.
	AllNamespaces bool
	// Now is the time that ages count to.
	Now func() time.Time

	widths    []int
	documents int
}

// List prints objects; single says that one was asked for by name, which YAML
// and JSON then show without a list around it.
func (p *Printer) List(w io.Writer, list *admin.List, single bool) error {
	if p.Format == YAML || p.Format == JSON {
		var object any = list
		if single && len(list.Items) == 1 {
			object = list.Items[0]
		}
		return p.document(w, object)
	}
	rows, err := p.rows(list.Items)
	if err != nil {
		return err
	}
	return p.table(w, append([][]string{p.header()}, rows...))
}

// Event prints one line of a watch, after [Printer.List] has printed what there was.
func (p *Printer) Event(w io.Writer, e admin.Event) error {
	if p.Format == YAML || p.Format == JSON {
		return p.document(w, e.Object)
	}
	rows, err := p.rows([]json.RawMessage{e.Object})
	if err != nil {
		return err
	}
	return p.table(w, rows)
}

func (p *Printer) document(w io.Writer, object any) error {
	text, err := json.MarshalIndent(object, "", "    ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", p.Resource, err)
	}
	text = append(text, '\n')
	if p.Format == YAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("encoding %s: %w", p.Resource, err)
		}
	}
	if p.documents > 0 && p.Format == YAML {
		text = append([]byte("---\n"), text...)
	}
	p.documents++
	return write(w, string(text))
}

func (p *Printer) header() []string {
	names := columns[p.Resource].names
	if p.Format == Wide {
		names = append(names[:len(names):len(names)], columns[p.Resource].wide...)
	}
	if p.AllNamespaces {
		names = append([]string{"NAMESPACE"}, names...)
	}
	return names
}

// rows makes the cells of each object, cut to the columns that are asked for.
func (p *Printer) rows(items []json.RawMessage) ([][]string, error) {
	kind := columns[p.Resource]
	rows := make([][]string, 0, len(items))
	for _, text := range items {
		namespace, cells, err := kind.row(text, p.Now(), p.Format == Wide)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", p.Resource, err)
		}
		if p.Format != Wide {
			cells = cells[:len(kind.names)]
		}
		if p.AllNamespaces {
			cells = append([]string{namespace}, cells...)
		}
		rows = append(rows, cells)
	}
	return rows, nil
}

// Of a column: its least width, and the blanks behind its widest cell.
const minWidth, padding = 6, 3

// table writes rows with columns as wide as the widest cell so far, as kubectl
// does. The last column is not padded.
func (p *Printer) table(w io.Writer, rows [][]string) error {
	for _, cells := range rows {
		for i, cell := range cells {
			if i == len(p.widths) {
				p.widths = append(p.widths, minWidth)
			}
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(cell)+padding)
		}
	}
	var b strings.Builder
	for _, cells := range rows {
		for i, cell := range cells[:len(cells)-1] {
			fmt.Fprintf(&b, "%-*s", p.widths[i], cell)
		}
		b.WriteString(cells[len(cells)-1])
		b.WriteByte('\n')
	}
	return write(w, b.String())
}

func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
