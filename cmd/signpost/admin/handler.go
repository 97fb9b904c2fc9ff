package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Handler serves the API. View returns what the server holds now; it is called
// from many goroutines.
func Handler(view func() *View) http.Handler {
	h := &handler{view: view}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", h.status)
	mux.HandleFunc("GET /v1/diff", h.diff)
	mux.HandleFunc("GET /v1/{resource}", h.list)
	return mux
}

type handler struct{ view func() *View }

func (h *handler) status(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, h.view().Status)
}

func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("resource")
	collect, known := resources[name]
	if !known {
		http.Error(w, fmt.Sprintf("the server doesn't have a resource type %q", name), http.StatusNotFound)
		return
	}
	query := r.URL.Query()
	filter := Filter{Namespace: query.Get("namespace"), Name: query.Get("name")}
	if query.Get("watch") == "true" {
		h.watch(w, r, func(v *View) ([]item, error) { return collect(r.Context(), v, filter) })
		return
	}
	view := h.view()
	items, err := collect(r.Context(), view, filter)
	var list *List
	if err == nil {
		list, err = newList(items, view.Desired.Revision)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, list)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// An error here is a client that went away: there is nobody to tell.
	_ = json.NewEncoder(w).Encode(v)
}

// watch writes the present objects, a bookmark, and then every change, until
// the client goes away. States that nobody had time to look at are skipped.
func (h *handler) watch(w http.ResponseWriter, r *http.Request, collect func(*View) ([]item, error)) {
	w.Header().Set("Content-Type", "application/json")
	out := http.NewResponseController(w)
	known, listed := map[string]json.RawMessage{}, false
	for {
		view := h.view()
		items, err := collect(view)
		if err != nil {
			return
		}
		events, now, err := compare(known, items)
		if err != nil {
			return
		}
		if !listed {
			events = append(events, Event{"BOOKMARK", json.RawMessage(`{}`)})
		}
		if writeEvents(w, events) != nil || out.Flush() != nil {
			return
		}
		known, listed = now, true
		view.Wait(r.Context())
		if r.Context().Err() != nil {
			return
		}
	}
}

func writeEvents(w http.ResponseWriter, events []Event) error {
	encoder := json.NewEncoder(w)
	for _, e := range events {
		if err := encoder.Encode(e); err != nil {
			return fmt.Errorf("writing an event: %w", err)
		}
	}
	return nil
}

// compare tells what happened between two listings and returns the new one.
func compare(known map[string]json.RawMessage, items []item) ([]Event, map[string]json.RawMessage, error) {
	list, err := newList(items, 0)
	if err != nil {
		return nil, nil, err
	}
	var events []Event
	now := make(map[string]json.RawMessage, len(items))
	for i, object := range list.Items {
		id := items[i].namespace + "/" + items[i].name + " " + items[i].id
		now[id] = object
		switch before, existed := known[id]; {
		case !existed:
			events = append(events, Event{"ADDED", object})
		case string(before) != string(object):
			events = append(events, Event{"MODIFIED", object})
		}
	}
	for id, object := range known {
		if _, exists := now[id]; !exists {
			events = append(events, Event{"DELETED", object})
		}
	}
	return events, now, nil
}
