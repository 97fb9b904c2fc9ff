package discovery

import (
	"context"
	"sync"
	"sync/atomic"
)

// Store publishes snapshots: many readers, who never wait, and writers, who
// take turns.
type Store struct {
	current atomic.Pointer[Snapshot]

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each publication
}

// Writer is what a [Source] needs of a store.
type Writer interface {
	// Update runs a change. It publishes one revision, or none if nothing
	// differs in the end, and returns the snapshot that is then current. The
	// change must not call Update itself.
	Update(change func(*Tx)) *Snapshot
}

// Source keeps a store current. Run delivers everything, then calls
// [Tx.MarkSynced], then follows the changes until the context ends. On bad
// input it keeps the previous objects: stale over partial.
type Source interface {
	Run(ctx context.Context, w Writer) error
}

var _ Writer = (*Store)(nil)

// NewStore returns an empty store at revision 0, not synced.
func NewStore() *Store {
	s := &Store{changed: make(chan struct{})}
	s.current.Store(&Snapshot{})
	return s
}

// Current returns the newest snapshot. It never blocks and never returns nil.
func (s *Store) Current() *Snapshot { return s.current.Load() }

// Changed returns a channel that is closed once the store's revision is
// greater than rev; it may be closed already.
func (s *Store) Changed(rev uint64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load().Revision > rev {
		already := make(chan struct{})
		close(already)
		return already
	}
	return s.changed
}

// Wait blocks until a snapshot satisfies the condition and returns it, or the
// context's error.
func (s *Store) Wait(ctx context.Context, condition func(*Snapshot) bool) (*Snapshot, error) {
	for {
		snap := s.Current()
		if condition(snap) {
			return snap, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.Changed(snap.Revision):
		}
	}
}

// Update implements [Writer].
func (s *Store) Update(change func(*Tx)) *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.current.Load()
	tx := newTx(before)
	change(tx)
	after, differs := tx.commit()
	if !differs {
		return before
	}
	s.current.Store(after)
	close(s.changed)
	s.changed = make(chan struct{})
	return after
}
