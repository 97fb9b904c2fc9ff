package server

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signpost/cmd/signpost/corefile"
)

func TestWatcher(t *testing.T) {
	t.Parallel()
	logs := &logBuffer{}
	var text string
	var failure error
	w := &watcher{failed: prometheus.NewCounter(prometheus.CounterOpts{}), log: slog.New(slog.NewTextHandler(logs, nil)), load: func() (*corefile.Config, error) {
		if failure != nil {
			return nil, failure
		}
		return corefile.Parse("Corefile", []byte(text), corefile.Options{})
	}}
	text = ".:53 {\n errors\n}"
	present, err := w.load()
	if err != nil {
		t.Fatal(err)
	}
	text = "# a comment, and other line breaks\n.:53 {\n\n errors\n}"
	if w.changed(present) != nil {
		t.Error("the same meaning counts as a change")
	}
	text = ".:53 {\n errors\n loadbalance\n}"
	if w.changed(present) == nil {
		t.Error("another directive is no change")
	}
	failure = errors.New("it is gone")
	for range 3 {
		if w.changed(present) != nil {
			t.Error("an unreadable file is a change")
		}
	}
	if got := strings.Count(logs.String(), "it is gone"); got != 1 {
		t.Errorf("one problem was logged %d times", got)
	}
	if w.timer(corefile.Reload{}) != nil {
		t.Error("without reload there is a timer")
	}
	if w.timer(corefile.Reload{Interval: time.Hour}) == nil {
		t.Error("with reload there is no timer")
	}
}
