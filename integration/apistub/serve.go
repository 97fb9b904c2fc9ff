package apistub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.options.Intercept != nil && s.options.Intercept(w, r) {
		return
	}
	resource := path.Base(r.URL.Path)
	s.mu.Lock()
	c := s.collections[resource]
	s.mu.Unlock()
	switch {
	case r.URL.Path == "/version":
		writeJSON(w, map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
	case c == nil || r.URL.Path != c.path(resource):
		Fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	case r.URL.Query().Get("watch") == "" || r.URL.Query().Get("watch") == "false":
		s.list(w, resource, c)
	default:
		s.watch(w, r, resource, c)
	}
}

func (c *collection) path(resource string) string {
	if c.apiVersion == corev1.SchemeGroupVersion.String() {
		return "/api/v1/" + resource
	}
	return "/apis/" + c.apiVersion + "/" + resource
}

// list writes everything at the present version.
func (s *Server) list(w http.ResponseWriter, resource string, c *collection) {
	s.mu.Lock()
	s.lists[resource]++
	version, objects := s.version, c.sorted()
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, c.kind, c.apiVersion, version)
	for i, o := range objects {
		if i > 0 {
			_, _ = w.Write([]byte(","))
		}
		_, _ = w.Write(o.object)
	}
	_, _ = w.Write([]byte("]}\n"))
}

// watch writes the events after a version, preceded by everything that is
// there if that was asked for.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, resource string, c *collection) {
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	if initial && s.options.NoWatchList {
		Fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
		return
	}
	from, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	out := s.encoder(w, r)

	s.mu.Lock()
	s.watches[resource]++
	closing := s.closing
	gone := !initial && from < c.oldest
	var first []event
	if initial {
		for _, o := range c.sorted() {
			first = append(first, event{"ADDED", o.version, o.object})
		}
		from = s.version
		first = append(first, event{"BOOKMARK", from, c.bookmark(from)})
	}
	s.mu.Unlock()
	if gone {
		_ = out("ERROR", mustJSON(status(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")))
		return
	}
	if !send(w, out, first) {
		return
	}
	s.follow(r, c, from, closing, func(events []event) bool { return send(w, out, events) })
}

// follow hands out events as they come, until the client or the server ends it.
func (s *Server) follow(r *http.Request, c *collection, from uint64, closing chan struct{}, send func([]event) bool) {
	for {
		s.mu.Lock()
		at := sort.Search(len(c.log), func(i int) bool { return c.log[i].version > from })
		news := slices.Clone(c.log[at:])
		changed := s.changed
		s.mu.Unlock()
		if len(news) > 0 {
			from = news[len(news)-1].version
		}
		if !send(news) {
			return
		}
		select {
		case <-changed:
		case <-closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// encoder returns what writes an event in the form that the client prefers.
func (s *Server) encoder(w http.ResponseWriter, r *http.Request) func(kind string, object []byte) error {
	if s.options.Protobuf && strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		w.Header().Set("Content-Type", protobufStream)
		return protobufEncoder(w)
	}
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	return func(kind string, object []byte) error {
		return out.Encode(struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}{kind, object})
	}
}

func send(w http.ResponseWriter, out func(string, []byte) error, events []event) bool {
	for _, e := range events {
		if out(e.kind, e.object) != nil {
			return false
		}
	}
	w.(http.Flusher).Flush()
	return true
}

// bookmark is the object that ends the initial events.
func (c *collection) bookmark(version uint64) []byte {
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","annotations":{%q:"true"}}}`,
		c.kind, c.apiVersion, version, metav1.InitialEventsAnnotationKey)
}

// Fail answers a request as an API server does that refuses it; for
// [Options.Intercept].
func Fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status(code, reason, message))
}

func status(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func resourceOf(o Object) string {
	switch o.(type) {
	case *corev1.Service:
		return "services"
	case *corev1.Namespace:
		return "namespaces"
	case *corev1.Node:
		return "nodes"
	case *corev1.Pod:
		return "pods"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	case *networkingv1.ServiceCIDR:
		return "servicecidrs"
	default:
		panic(fmt.Sprintf("apistub holds no %T", o))
	}
}

func keyOf(o Object) string { return o.GetNamespace() + "/" + o.GetName() }

func groupVersionKind(c *collection) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(c.apiVersion, c.kind)
}
