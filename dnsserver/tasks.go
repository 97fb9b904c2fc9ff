package dnsserver

import (
	"context"
	"sync"
)

// tasks owns goroutines: none starts after close, and close waits for all.
type tasks struct {
	ctx    context.Context // the lifetime of the goroutines
	cancel context.CancelFunc

	mu      sync.Mutex // makes run and close exclusive
	closed  bool
	running sync.WaitGroup
}

func newTasks() *tasks {
	t := new(tasks)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// run starts f, which has to end soon after its context; false means that the
// tasks are closed and f never ran.
func (t *tasks) run(f func(ctx context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.running.Go(func() { f(t.ctx) })
	return true
}

// close ends what runs and waits for it.
func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.running.Wait()
}

// lifetime is what a configuration keeps beside the queries: watched files,
// health checks, pooled connections, caches. It is put together while the
// chains are built, begins when they take queries, and ends when they take no
// new ones.
type lifetime struct {
	begins, ends []func()
	// caches by identity; a reload hands on those that still fit (L9).
	caches map[string]*cacheStore
}

func newLifetime() *lifetime { return &lifetime{caches: map[string]*cacheStore{}} }

// add adds a part; either function may be nil.
func (l *lifetime) add(begin, end func()) {
	if begin != nil {
		l.begins = append(l.begins, begin)
	}
	if end != nil {
		l.ends = append(l.ends, end)
	}
}

func (l *lifetime) begin() { runAll(l.begins) }
func (l *lifetime) end()   { runAll(l.ends) }

func runAll(functions []func()) {
	for _, f := range functions {
		f()
	}
}
