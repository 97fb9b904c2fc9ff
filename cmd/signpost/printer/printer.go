package printer

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

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

// Printer prints the objects of one resource.
type Printer struct {
	Resource string // as in package admin
	Format   Format
	// AllNamespaces adds the column NAMESPACE.
	AllNamespaces bool
	// Now is the time that ages count to.
	Now func() time.Time
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
	return writeTable(w, append([][]string{p.header()}, rows...))
}

// Event prints one line of a watch; first asks for the header.
func (p *Printer) Event(w io.Writer, e admin.Event, first bool) error {
	if p.Format == YAML || p.Format == JSON {
		if p.Format == YAML {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return err
			}
		}
		return p.document(w, e.Object)
	}
	rows, err := p.rows([]json.RawMessage{e.Object})
	if err != nil {
		return err
	}
	if first {
		rows = append([][]string{p.header()}, rows...)
	}
	return writeTable(w, rows)
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
	_, err = w.Write(text)
	return err
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

// writeTable aligns as kubectl does: columns three blanks apart.
func writeTable(w io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0)
	for _, cells := range rows {
		if _, err := fmt.Fprintln(table, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}
