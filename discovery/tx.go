package discovery

import (
	"maps"
	"net/netip"
	"slices"
)

// Tx collects the changes of one update. It is for the function that it was
// given to, and for that function's goroutine.
//
// What counts is the outcome: whatever is put back as it was, even after it
// was deleted, is the same pointer as before and no change.
type Tx struct {
	before     *Snapshot
	services   table[*Service]
	pods       table[*Pod]
	nodes      map[string]*Node
	namespaces map[string]bool
	labels     map[string]map[string]string
	ranges     []netip.Prefix
	synced     bool
	moves      map[netip.Addr][]move // by address, in the order in which they were made

	nodesOwned, namespacesOwned, labelsOwned bool // copied already by this change
}

func newTx(before *Snapshot) *Tx {
	return &Tx{
		before: before, services: newTable(before.Services), pods: newTable(before.Pods),
		nodes: before.Nodes, namespaces: before.Namespaces, labels: before.NamespaceLabels,
		ranges: before.ServiceCIDRs, synced: before.Synced, moves: map[netip.Addr][]move{},
	}
}

// PutService stores a service. If it equals the present one, that one stays,
// pointer and all.
func (tx *Tx) PutService(s *Service) {
	if old, changed := tx.services.put(s.Key, s); changed {
		tx.reindexService(old, s)
	}
}

// DeleteService removes a service; one that is not there is no error.
func (tx *Tx) DeleteService(k Key) {
	if old, existed := tx.services.remove(k); existed {
		tx.reindexService(old, nil)
	}
}

// PutPod stores a pod, as PutService does a service.
func (tx *Tx) PutPod(p *Pod) {
	if old, changed := tx.pods.put(p.Key, p); changed {
		tx.reindexPod(old, p)
	}
}

// DeletePod removes a pod; one that is not there is no error.
func (tx *Tx) DeletePod(k Key) {
	if old, existed := tx.pods.remove(k); existed {
		tx.reindexPod(old, nil)
	}
}

// PutNode stores a node, as PutService does a service.
func (tx *Tx) PutNode(n *Node) {
	if tx.nodes[n.Name].Equal(n) {
		return
	}
	if was := tx.before.Nodes[n.Name]; was.Equal(n) {
		n = was
	}
	tx.ownNodes()[n.Name] = n
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
	tx.putLabels(name, nil)
}

// PutServiceCIDRs replaces the ranges that cluster addresses come from; the
// order doesn't matter, and invalid ones are left out.
func (tx *Tx) PutServiceCIDRs(ranges []netip.Prefix) {
	list := make([]netip.Prefix, 0, len(ranges))
	for _, p := range ranges {
		if p.IsValid() {
			list = append(list, p.Masked())
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	if list = slices.Compact(list); !slices.Equal(list, tx.ranges) {
		tx.ranges = list
	}
}

// MarkSynced says that everything that exists has been delivered once.
func (tx *Tx) MarkSynced() { tx.synced = true }

// ownNodes returns the nodes as a copy that belongs to this change. Nodes
// change rarely enough for a whole copy each time.
func (tx *Tx) ownNodes() map[string]*Node {
	if !tx.nodesOwned {
		tx.nodes, tx.nodesOwned = cloneOrMake(tx.nodes), true
	}
	return tx.nodes
}

func (tx *Tx) ownNamespaces() map[string]bool {
	if !tx.namespacesOwned {
		tx.namespaces, tx.namespacesOwned = cloneOrMake(tx.namespaces), true
	}
	return tx.namespaces
}

func cloneOrMake[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

// commit returns the snapshot that the changes lead to, and whether it
// differs from the one before.
func (tx *Tx) commit() (*Snapshot, bool) {
	nodesSame := !tx.nodesOwned || maps.Equal(tx.nodes, tx.before.Nodes)
	namespacesSame := !tx.namespacesOwned || maps.Equal(tx.namespaces, tx.before.Namespaces)
	rangesSame := slices.Equal(tx.ranges, tx.before.ServiceCIDRs)
	if nodesSame && namespacesSame && rangesSame && tx.sameLabels() && tx.synced == tx.before.Synced && !tx.services.differs() && !tx.pods.differs() {
		return tx.before, false
	}
	return &Snapshot{
		Revision: tx.before.Revision + 1, Synced: tx.synced,
		Services: tx.services.edit.Map(), Pods: tx.pods.edit.Map(),
		Nodes: tx.nodes, Namespaces: tx.namespaces, NamespaceLabels: tx.labels, ServiceCIDRs: tx.ranges, byAddr: tx.index(),
	}, true
}

// equaler is an object that knows whether another one is the same.
type equaler[V any] interface {
	comparable
	Equal(other V) bool
}

// table is a [Map] under change that knows which keys differ from where it
// began.
type table[V equaler[V]] struct {
	before  Map[V]
	edit    *Editor[V]
	changed map[Key]struct{}
}

func newTable[V equaler[V]](before Map[V]) table[V] {
	return table[V]{before: before, edit: before.Edit(), changed: map[Key]struct{}{}}
}

func (t *table[V]) differs() bool { return len(t.changed) > 0 }

// put stores a value; it returns what was there and whether that changes
// anything for the moment.
func (t *table[V]) put(k Key, v V) (old V, changed bool) {
	old, exists := t.edit.Get(k)
	if exists && old.Equal(v) {
		return old, false
	}
	if was, existed := t.before.Get(k); existed && was.Equal(v) {
		v = was
		delete(t.changed, k)
	} else {
		t.changed[k] = struct{}{}
	}
	t.edit.Set(k, v)
	return old, true
}

// remove deletes a value and returns it, if there was one.
func (t *table[V]) remove(k Key) (old V, existed bool) {
	old, existed = t.edit.Get(k)
	if !existed {
		return old, false
	}
	t.edit.Delete(k)
	if _, hadBefore := t.before.Get(k); hadBefore {
		t.changed[k] = struct{}{}
	} else {
		delete(t.changed, k)
	}
	return old, true
}
