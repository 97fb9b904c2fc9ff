package vip

import (
	"sync"
	"sync/atomic"
)

// Cell holds the newest value of something that is replaced as a whole, and
// tells those who wait when it is. Values are immutable. Use [NewCell].
type Cell[T any] struct {
	current atomic.Pointer[T]

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with each new value
}

// NewCell returns a cell with a value, which may be nil.
func NewCell[T any](value *T) *Cell[T] {
	c := &Cell[T]{changed: make(chan struct{})}
	c.current.Store(value)
	return c
}

// Current returns the newest value. It never blocks.
func (c *Cell[T]) Current() *T { return c.current.Load() }

// Changed returns a channel that is closed once the value is another one than
// old; it may be closed already.
func (c *Cell[T]) Changed(old *T) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.Load() != old {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return c.changed
}

// Set replaces the value. The same pointer is no change.
func (c *Cell[T]) Set(value *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.Load() == value {
		return
	}
	c.current.Store(value)
	close(c.changed)
	c.changed = make(chan struct{})
}

// NodeSource knows the node that the dataplane is for. A [Cell] is one; a node
// that never changes is NewCell(&Node{…}).
type NodeSource interface {
	// Current returns the newest node, nil as long as it is not known.
	Current() *Node
	// Changed returns a channel that is closed once the node is another one
	// than old.
	Changed(old *Node) <-chan struct{}
}

var _ NodeSource = (*Cell[Node])(nil)
