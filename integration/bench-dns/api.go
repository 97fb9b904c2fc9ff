package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"
)

// kind is one kind of object as the API serves it.
type kind struct {
	path, name, version string
	items               []any
}

// serveAPI is a stand-in for an API server, as far as CoreDNS asks one: lists,
// and watches in which nothing ever happens. It returns its address.
func serveAPI(ctx context.Context, c *cluster) (addr string, stop func(), err error) {
	mux := http.NewServeMux()
	for _, k := range []*kind{
		{"/api/v1/namespaces", "Namespace", "v1", objects(c.namespaces)},
		{"/api/v1/services", "Service", "v1", objects(c.services)},
		{"/api/v1/pods", "Pod", "v1", nil},
		{"/apis/discovery.k8s.io/v1/endpointslices", "EndpointSlice", "discovery.k8s.io/v1", objects(c.slices)},
	} {
		mux.Handle("GET "+k.path, k)
	}
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		send(w, map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
	})
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("serving the API: %w", err)
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(ln) }() // ends when closed
	return ln.Addr().String(), func() { _ = srv.Close() }, nil
}

func objects[T any](list []T) []any {
	all := make([]any, len(list))
	for i, o := range list {
		all[i] = o
	}
	return all
}

func send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client notices
}

// ServeHTTP serves a list or a watch.
func (k *kind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "" {
		send(w, map[string]any{
			"kind": k.name + "List", "apiVersion": k.version, "items": k.items,
			"metadata": map[string]string{"resourceVersion": "1"},
		})
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, o := range k.items {
			send(w, map[string]any{"type": "ADDED", "object": o})
		}
		send(w, map[string]any{"type": "BOOKMARK", "object": map[string]any{
			"kind": k.name, "apiVersion": k.version, "metadata": map[string]any{
				"resourceVersion": "1", "annotations": map[string]string{"k8s.io/initial-events-end": "true"},
			},
		}})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush() // the client notices
	<-r.Context().Done()
}
