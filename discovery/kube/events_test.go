package kube

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"signpost/discovery"
	"signpost/integration/apistub"
)

// eventServer takes events, or refuses them with a status.
type eventServer struct {
	t       *testing.T
	decoder runtime.Decoder
	got     chan *eventsv1.Event

	mu     sync.Mutex
	status int // 0: taken
}

func newEventServer(t *testing.T) *eventServer {
	scheme := runtime.NewScheme()
	if err := eventsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &eventServer{t: t, decoder: serializer.NewCodecFactory(scheme).UniversalDeserializer(), got: make(chan *eventsv1.Event, 200)}
}

func (s *eventServer) intercept(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading an event: %v", err)
	}
	object, _, err := s.decoder.Decode(body, nil, nil)
	event, ok := object.(*eventsv1.Event)
	if err != nil || !ok {
		s.t.Errorf("decoding an event: %v", err)
		return false
	}
	if want := "/apis/events.k8s.io/v1/namespaces/" + event.Namespace + "/events"; r.URL.Path != want {
		s.t.Errorf("posted to %s, want %s", r.URL.Path, want)
	}
	s.mu.Lock()
	status := s.status
	s.mu.Unlock()
	if status != 0 {
		w.WriteHeader(status)
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"name":"x","namespace":"web"}}`)
	s.got <- event
	return true
}

func (s *eventServer) answer(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

func (s *eventServer) next() *eventsv1.Event {
	s.t.Helper()
	select {
	case event := <-s.got:
		return event
	case <-time.After(10 * time.Second):
		s.t.Fatal("no event was written")
		return nil
	}
}

// writeEvents runs a writer until the end of the test.
func (s *eventServer) writeEvents() (*Events, *harness) {
	h := follow(s.t, newServer(s.t, apistub.Options{Intercept: s.intercept}), Config{})
	events := h.source.Events(strings.Repeat("n", 200))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); events.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-ended })
	return events, h
}

var front = discovery.Key{Namespace: "web", Name: "front"}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := newEventServer(t)
	events, _ := s.writeEvents()
	events.Record(Event{Service: front, UID: "u-1", Warning: true, Reason: "FrontendTaken", Note: strings.Repeat("ä", 600)})
	got := s.next()
	if got.Regarding.Kind != "Service" || got.Regarding.Namespace != "web" || got.Regarding.Name != "front" || got.Regarding.UID != "u-1" {
		t.Errorf("regarding %+v", got.Regarding)
	}
	if got.Type != "Warning" || got.Reason != "FrontendTaken" || got.Action == "" || got.ReportingController == "" || got.EventTime.IsZero() {
		t.Errorf("event %+v", got)
	}
	if len(got.Note) != 1024 || !utf8.ValidString(got.Note) || len(got.ReportingInstance) > 128 {
		t.Errorf("note of %d bytes, instance of %d", len(got.Note), len(got.ReportingInstance))
	}
}

// TestEventsRefused is an account without the right: said once, and nothing
// else is lost.
func TestEventsRefused(t *testing.T) {
	t.Parallel()
	s := newEventServer(t)
	s.answer(http.StatusForbidden)
	events, h := s.writeEvents()
	for range 3 {
		events.Record(Event{Service: front, Reason: "FrontendTaken", Note: "taken"})
	}
	h.synced()
	eventually(t, "what was recorded is dealt with", func() bool { return len(events.queue) == 0 && h.log.count("may not create events") == 1 })
	s.answer(0)
	events.Record(Event{Service: front, Reason: "FrontendTaken", Note: "taken"})
	s.next()
	if n := h.log.count("may not create events"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// TestEventsBounded is a flood: the writer takes what its bound allows, and
// never holds anybody up.
func TestEventsBounded(t *testing.T) {
	t.Parallel()
	s := newEventServer(t)
	events, _ := s.writeEvents()
	for range 10 * eventsBurst {
		events.Record(Event{Service: front, Reason: "FrontendTaken", Note: "taken"})
	}
	s.next()
	eventually(t, "what was recorded is dealt with", func() bool { return len(events.queue) == 0 })
	if n := len(s.got); n > eventsBurst+1 {
		t.Errorf("%d events were written", n+1)
	}
}
