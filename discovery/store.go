package discovery

import (
	"context"
	"maps"
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
	// differs, and returns the snapshot that is then current.
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
		return closedChannel
	}
	return s.changed
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

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

// Tx collects the changes of one update. It is for the function that it was
// given to, and for that function's goroutine.
type Tx struct {
	before     *Snapshot
	services   *Editor[*Service]
	pods       *Editor[*Pod]
	nodes      map[string]*Node
	namespaces map[string]bool
	synced     bool
	dirty      bool
	byAddr     AddrMap[*addrOwners]

	nodesOwned, namespacesOwned bool // copied already by this change
}

func newTx(before *Snapshot) *Tx {
	return &Tx{
		before: before, services: before.Services.Edit(), pods: before.Pods.Edit(),
		nodes: before.Nodes, namespaces: before.Namespaces, synced: before.Synced, byAddr: before.byAddr,
	}
}

// PutService stores a service. If it equals the present one, that one stays,
// pointer and all.
func (tx *Tx) PutService(s *Service) {
	old, exists := tx.services.Get(s.Key)
	if exists && old.Equal(s) {
		return
	}
	tx.services.Set(s.Key, s)
	tx.reindexService(old, s)
	tx.dirty = true
}

// DeleteService removes a service; one that is not there is no error.
func (tx *Tx) DeleteService(k Key) {
	if old, exists := tx.services.Get(k); exists {
		tx.services.Delete(k)
		tx.reindexService(old, nil)
		tx.dirty = true
	}
}

// PutPod stores a pod, as PutService does a service.
func (tx *Tx) PutPod(p *Pod) {
	old, exists := tx.pods.Get(p.Key)
	if exists && old.Equal(p) {
		return
	}
	tx.pods.Set(p.Key, p)
	tx.reindexPod(old, p)
	tx.dirty = true
}

// DeletePod removes a pod; one that is not there is no error.
func (tx *Tx) DeletePod(k Key) {
	if old, exists := tx.pods.Get(k); exists {
		tx.pods.Delete(k)
		tx.reindexPod(old, nil)
		tx.dirty = true
	}
}

// PutNode stores a node, as PutService does a service.
func (tx *Tx) PutNode(n *Node) {
	if !tx.nodes[n.Name].Equal(n) {
		tx.ownNodes()[n.Name] = n
	}
}

// DeleteNode removes a node; one that is not there is no error.
func (tx *Tx) DeleteNode(name string) {
	if tx.nodes[name] != nil {
		delete(tx.ownNodes(), name)
	}
}

// PutNamespace says that a namespace exists.
func (tx *Tx) PutNamespace(name string) {
	if !tx.namespaces[name] {
		tx.ownNamespaces()[name] = true
	}
}

// DeleteNamespace says that a namespace exists no more.
func (tx *Tx) DeleteNamespace(name string) {
	if tx.namespaces[name] {
		delete(tx.ownNamespaces(), name)
	}
}

// MarkSynced says that everything that exists has been delivered once.
func (tx *Tx) MarkSynced() {
	tx.dirty = tx.dirty || !tx.synced
	tx.synced = true
}

// ownNodes returns the nodes as a copy that belongs to this change. Nodes
// change rarely enough for a whole copy each time.
func (tx *Tx) ownNodes() map[string]*Node {
	if !tx.nodesOwned {
		tx.nodes, tx.nodesOwned = cloneOrMake(tx.nodes), true
	}
	tx.dirty = true
	return tx.nodes
}

func (tx *Tx) ownNamespaces() map[string]bool {
	if !tx.namespacesOwned {
		tx.namespaces, tx.namespacesOwned = cloneOrMake(tx.namespaces), true
	}
	tx.dirty = true
	return tx.namespaces
}

func cloneOrMake[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

func (tx *Tx) commit() (*Snapshot, bool) {
	if !tx.dirty {
		return tx.before, false
	}
	return &Snapshot{
		Revision: tx.before.Revision + 1, Synced: tx.synced,
		Services: tx.services.Map(), Pods: tx.pods.Map(),
		Nodes: tx.nodes, Namespaces: tx.namespaces, byAddr: tx.byAddr,
	}, true
}
