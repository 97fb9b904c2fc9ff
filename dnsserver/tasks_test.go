package dnsserver

import (
	"context"
	"strings"
	"testing"
)

// TestTasks checks that close waits for what runs, and that nothing starts
// after it.
func TestTasks(t *testing.T) {
	t.Parallel()
	tasks, ended := newTasks(), false
	if !tasks.run(func(ctx context.Context) { <-ctx.Done(); ended = true }) {
		t.Fatal("not started")
	}
	tasks.close()
	if !ended {
		t.Error("closed while a task ran")
	}
	if tasks.run(func(context.Context) { t.Error("ran after the end") }) {
		t.Error("started after the end")
	}
	tasks.close()
}

// TestLifetime checks the order.
func TestLifetime(t *testing.T) {
	t.Parallel()
	var order []string
	note := func(s string) func() { return func() { order = append(order, s) } }
	l := newLifetime()
	l.add(note("a begins"), note("a ends"))
	l.add(nil, note("b ends"))
	l.begin()
	l.end()
	if got := strings.Join(order, ", "); got != "a begins, a ends, b ends" {
		t.Errorf("order %s", got)
	}
}
