package apistub

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Object is what the server holds.
type Object interface {
	runtime.Object
	metav1.Object
}

// Options choose what kind of API server it is.
type Options struct {
	// NoWatchList refuses initial events in watches, as older servers do.
	NoWatchList bool
	// Protobuf answers watches in the API's binary form where the client takes
	// it, as real servers do. Lists are JSON always.
	Protobuf bool
	// Intercept sees every request first; true: it has answered.
	Intercept func(w http.ResponseWriter, r *http.Request) bool
}

// event is one entry of the log.
type event struct {
	kind    string // ADDED, MODIFIED, DELETED
	version uint64
	object  []byte // JSON
}

// stored is one object in force.
type stored struct {
	version uint64
	object  []byte // JSON
}

// collection holds the objects of one resource.
type collection struct {
	apiVersion, kind string
	objects          map[string]stored
	log              []event
	oldest           uint64 // versions before are compacted away
}

// Server is a running API server.
type Server struct {
	options Options
	address string

	mu          sync.Mutex
	http        *httptest.Server // nil: down
	version     uint64
	collections map[string]*collection // by plural name
	changed     chan struct{}          // closed and replaced at each change
	closing     chan struct{}          // closed and replaced to end the watches
	lists       map[string]int
	watches     map[string]int
}

// New starts a server on a free port of the loopback address.
func New(o Options) *Server {
	core := corev1.SchemeGroupVersion.String()
	s := &Server{
		options: o, version: 100, changed: make(chan struct{}), closing: make(chan struct{}),
		lists: map[string]int{}, watches: map[string]int{},
		collections: map[string]*collection{
			"services":       {apiVersion: core, kind: "Service"},
			"namespaces":     {apiVersion: core, kind: "Namespace"},
			"nodes":          {apiVersion: core, kind: "Node"},
			"pods":           {apiVersion: core, kind: "Pod"},
			"endpointslices": {apiVersion: discoveryv1.SchemeGroupVersion.String(), kind: "EndpointSlice"},
			"servicecidrs":   {apiVersion: networkingv1.SchemeGroupVersion.String(), kind: "ServiceCIDR"},
		},
	}
	for _, c := range s.collections {
		c.objects = map[string]stored{}
	}
	s.http = httptest.NewServer(s)
	s.address = s.http.Listener.Addr().String()
	return s
}

// URL returns the server's address, the same after Down and Up.
func (s *Server) URL() string { return "http://" + s.address }

// Close ends the server.
func (s *Server) Close() { s.Down() }

// Down stops listening and cuts every connection.
func (s *Server) Down() {
	s.CloseWatches()
	s.mu.Lock()
	server := s.http
	s.http = nil
	s.mu.Unlock()
	if server != nil {
		server.CloseClientConnections()
		server.Close()
	}
}

// Up listens again, where it did before.
func (s *Server) Up() error {
	listener, err := net.Listen("tcp", s.address) //nolint:noctx // a test's loopback listener
	if err != nil {
		return fmt.Errorf("listening on %s again: %w", s.address, err)
	}
	server := httptest.NewUnstartedServer(s)
	_ = server.Listener.Close()
	server.Listener = listener
	s.mu.Lock()
	s.http = server
	s.mu.Unlock()
	server.Start()
	return nil
}

// CloseWatches ends the watches that are open; new ones may be opened.
func (s *Server) CloseWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.closing)
	s.closing = make(chan struct{})
}

// Put creates or replaces objects, each with a new resource version.
func (s *Server) Put(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.put(o.DeepCopyObject().(Object))
	}
	s.signal()
}

func (s *Server) put(o Object) {
	c := s.collections[resourceOf(o)]
	key := keyOf(o)
	s.version++
	o.SetResourceVersion(strconv.FormatUint(s.version, 10))
	if o.GetUID() == "" {
		o.SetUID(types.UID("uid-" + resourceOf(o) + "-" + key))
	}
	o.GetObjectKind().SetGroupVersionKind(groupVersionKind(c))
	text := mustJSON(o)
	kind := "ADDED"
	if _, exists := c.objects[key]; exists {
		kind = "MODIFIED"
	}
	c.objects[key] = stored{s.version, text}
	c.log = append(c.log, event{kind, s.version, text})
}

// Delete removes objects, by kind, namespace and name.
func (s *Server) Delete(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		c := s.collections[resourceOf(o)]
		was, exists := c.objects[keyOf(o)]
		if !exists {
			continue
		}
		s.version++
		delete(c.objects, keyOf(o))
		c.log = append(c.log, event{"DELETED", s.version, was.object})
	}
	s.signal()
}

// Clear forgets all objects without a word to anybody, as a server does that
// comes up without its data.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		clear(c.objects)
	}
	s.compact()
}

// Compact forgets the events so far: a watch from an older version is told
// 410 Gone.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact()
}

func (s *Server) compact() {
	s.version++
	for _, c := range s.collections {
		c.log, c.oldest = nil, s.version
	}
}

// Lists and Watches count the requests for a resource that were answered.
func (s *Server) Lists(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists[resource]
}

// Watches counts the watches of a resource that were opened.
func (s *Server) Watches(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches[resource]
}

func (s *Server) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// sorted returns the objects in the order of their versions.
func (c *collection) sorted() []stored {
	list := make([]stored, 0, len(c.objects))
	for _, o := range c.objects {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b stored) int { return int(a.version) - int(b.version) })
	return list
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // API objects can be encoded
	}
	return text
}
