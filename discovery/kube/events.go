package kube

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"signpost/discovery"
)

// Event is what happened to a service on this node, as `kubectl describe
// service` shows it.
type Event struct {
	Service discovery.Key
	UID     string // of the service: kubectl finds its events by it
	Warning bool   // else it is a normal one
	Reason  string // a word in camel case, for machines
	Note    string // a sentence; what is longer than 1,024 bytes is cut
}

// Events writes events to the API server. They are for people: one that can't
// be written, because the server is away or there are too many, is dropped. What
// they say stands in the log as well.
type Events struct {
	client rest.Interface
	node   string
	log    *slog.Logger
	queue  chan Event
	limit  *rate.Limiter

	failing bool // and it was told
}

// Bounds of what one node writes: a missing kernel feature concerns every
// service at once.
const (
	eventsBurst       = 50
	eventsPeriod      = 10 * time.Second // of each one more
	eventTimeout      = 10 * time.Second
	eventNoteSize     = 1024 // bytes; this and the next one are the API's own bounds
	eventInstanceSize = 128
)

// Events returns what writes events in the name of a node, to the server that
// the source follows. It needs the right to create events.k8s.io/events.
func (s *Source) Events(node string) *Events {
	return &Events{
		client: s.client.groups[eventsv1.SchemeGroupVersion], node: node, log: s.cfg.Log,
		queue: make(chan Event, eventsBurst), limit: rate.NewLimiter(rate.Every(eventsPeriod), eventsBurst),
	}
}

// Record has an event written soon. It never waits.
func (e *Events) Record(event Event) {
	if !e.limit.Allow() {
		return
	}
	select {
	case e.queue <- event:
	default: // the server is slow
	}
}

// Run writes what is recorded, until the context ends.
func (e *Events) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-e.queue:
			e.report(ctx, e.write(ctx, event))
		}
	}
}

func (e *Events) write(ctx context.Context, event Event) error {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	object := e.object(event, time.Now())
	return e.client.Post().Namespace(object.Namespace).Resource("events").Body(object).Do(ctx).Error() //nolint:wrapcheck // report does
}

// report logs that events can't be written, and that they can again, once.
func (e *Events) report(ctx context.Context, err error) {
	failed := err != nil && ctx.Err() == nil
	if failed == e.failing {
		return
	}
	e.failing = failed
	switch {
	case !failed:
		e.log.Info("events are written again")
	case apierrors.IsForbidden(err):
		e.log.Info("events are in the log alone: this account may not create events (events.k8s.io)", "error", err)
	default:
		e.log.Warn("events can't be written", "error", err)
	}
}

// object is the event in the API's form.
func (e *Events) object(event Event, now time.Time) *eventsv1.Event {
	kind := corev1.EventTypeNormal
	if event.Warning {
		kind = corev1.EventTypeWarning
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: event.Service.Namespace, Name: fmt.Sprintf("%s.%x", event.Service.Name, now.UnixNano()),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: "signpost", ReportingInstance: cut("signpost-"+e.node, eventInstanceSize),
		Action: "Program", Reason: event.Reason, Type: kind, Note: cut(event.Note, eventNoteSize),
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Service", Namespace: event.Service.Namespace, Name: event.Service.Name,
			UID: types.UID(event.UID),
		},
	}
}

// cut shortens a text to a number of bytes, and leaves no half character.
func cut(text string, size int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}
