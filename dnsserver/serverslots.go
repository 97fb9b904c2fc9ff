package dnsserver

import (
	"context"
	"sync/atomic"
)

// slots bounds the queries in flight. Unlike a channel it can be resized while
// tokens are out, which a reload needs; shrinking takes effect as they come
// back.
type slots struct {
	limit, used, waiting atomic.Int64
	// freed wakes one waiter; each waiter that gets a token wakes the next.
	freed chan struct{}
}

func newSlots(limit int) *slots {
	s := &slots{freed: make(chan struct{}, 1)}
	s.resize(limit)
	return s
}

// resize changes the number of tokens.
func (s *slots) resize(limit int) {
	s.limit.Store(int64(limit))
	s.wake()
}

// try takes a token if one is free.
func (s *slots) try() bool {
	for {
		n := s.used.Load()
		if n >= s.limit.Load() {
			return false
		}
		if s.used.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// acquire waits for a token; false means that ctx ended first.
func (s *slots) acquire(ctx context.Context) bool {
	if s.try() {
		return true
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	for !s.try() {
		select {
		case <-s.freed:
		case <-ctx.Done():
			return false
		}
	}
	s.wake()
	return true
}

// release gives a token back.
func (s *slots) release() {
	s.used.Add(-1)
	if s.waiting.Load() > 0 {
		s.wake()
	}
}

func (s *slots) wake() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}
