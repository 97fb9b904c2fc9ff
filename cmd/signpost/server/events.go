package server

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	"signpost/discovery"
	"signpost/discovery/kube"
)

// Attributes that make a line of the log an event of a service, too: its reason
// in one word, and the service as "namespace/name". So whoever logs needs to
// know nothing of API servers.
const (
	eventAttr   = "event"
	serviceAttr = "service"
)

// eventLog passes lines on, and has those that are events written to the API
// server, where there is one. With a folder as the source they stay lines.
type eventLog struct {
	slog.Handler
	current *atomic.Pointer[generation]
}

// WithAttrs implements [slog.Handler]. What a logger has for each of its lines is
// no part of an event.
func (l eventLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return eventLog{l.Handler.WithAttrs(attrs), l.current}
}

// WithGroup implements [slog.Handler].
func (l eventLog) WithGroup(name string) slog.Handler {
	return eventLog{l.Handler.WithGroup(name), l.current}
}

// Handle implements [slog.Handler].
func (l eventLog) Handle(ctx context.Context, r slog.Record) error {
	if g := l.current.Load(); g != nil && g.source.events != nil {
		if event, ok := eventOf(r); ok {
			if service, ok := g.source.store.Current().Services.Get(event.Service); ok {
				event.UID = service.UID
				g.source.events.Record(event)
			}
		}
	}
	return l.Handler.Handle(ctx, r) //nolint:wrapcheck // it only passes on
}

// eventOf reads an event out of a line: the note is the line's text and what else
// it has, such as "frontend is taken: frontend 203.0.113.7:80/TCP, owner web/b".
func eventOf(r slog.Record) (kube.Event, bool) {
	event := kube.Event{Warning: r.Level >= slog.LevelWarn}
	var rest []string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case eventAttr:
			event.Reason = a.Value.String()
		case serviceAttr:
			event.Service.Namespace, event.Service.Name, _ = strings.Cut(a.Value.String(), "/")
		default:
			rest = append(rest, a.Key+" "+a.Value.String())
		}
		return true
	})
	event.Note = r.Message
	if len(rest) > 0 {
		event.Note += ": " + strings.Join(rest, ", ")
	}
	return event, event.Reason != "" && event.Service != discovery.Key{}
}
