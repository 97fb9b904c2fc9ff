package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"signpost/vip"
)

// Diff is the answer to GET /v1/diff: how the dataplane differs from the plan.
type Diff struct {
	Mode        string   `json:"mode"`
	Differences []string `json:"differences"` // as [vip.Difference] writes them
}

// NewDiff puts differences into words.
func NewDiff(mode string, list []vip.Difference) *Diff {
	d := &Diff{Mode: mode, Differences: make([]string, len(list))}
	for i, one := range list {
		d.Differences[i] = one.String()
	}
	return d
}

func (h *handler) diff(w http.ResponseWriter, r *http.Request) {
	view := h.view()
	if view.Diff == nil {
		http.Error(w, "the server runs no dataplane, or has not planned one yet", http.StatusConflict)
		return
	}
	list, err := view.Diff(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, NewDiff(view.Status.Mode, list))
}

// Diff asks how the dataplane differs from the plan.
func (c *Client) Diff(ctx context.Context) (*Diff, error) {
	body, err := c.get(ctx, "diff", Filter{}, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	diff := &Diff{}
	if err := json.NewDecoder(body).Decode(diff); err != nil {
		return nil, fmt.Errorf("reading the difference: %w", err)
	}
	return diff, nil
}
