package kube

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"signpost/discovery"
	"signpost/discovery/convert"
)

// keySet are the keys of objects that are to be published again.
type keySet map[discovery.Key]struct{}

func (s keySet) add(k discovery.Key) { s[k] = struct{}{} }

// world is everything that the API server has told, and what of it is not
// published yet.
type world struct {
	doubt  time.Duration // see [table.Replace]
	health *health
	wake   chan struct{} // one token: there is something to publish

	mu     sync.Mutex // guards all below, tables included
	tables []*table
	// slices of each service, by name. A slice may be here before its service.
	slices map[discovery.Key][]*item

	services, namespaces, nodes, ranges, pods *table // nodes, ranges and pods: nil if not wanted

	dirtyServices, dirtyNamespaces, dirtyNodes, dirtyRanges, dirtyPods keySet
	// fresh are slices whose trigger time is news: how long they took is measured.
	fresh []*item
}

func newWorld(cfg *Config, h *health) *world {
	w := &world{
		doubt: cfg.doubt, health: h, wake: make(chan struct{}, 1), slices: map[discovery.Key][]*item{},
		dirtyServices: keySet{}, dirtyNamespaces: keySet{}, dirtyNodes: keySet{}, dirtyRanges: keySet{}, dirtyPods: keySet{},
	}
	w.services = w.table(serviceResource(), marker(w.dirtyServices))
	w.table(sliceResource(), w.sliceChanged)
	w.namespaces = w.table(namespaceResource(), marker(w.dirtyNamespaces))
	if cfg.Nodes {
		w.nodes = w.table(nodeResource(), marker(w.dirtyNodes))
		w.ranges = w.table(rangeResource(), marker(w.dirtyRanges))
	}
	if cfg.Pods {
		w.pods = w.table(podResource(), marker(w.dirtyPods))
	}
	return w
}

func (w *world) table(r *resource, changed func(before, after *item)) *table {
	t := &table{world: w, resource: r, items: map[discovery.Key]*item{}, changed: changed}
	w.tables = append(w.tables, t)
	return t
}

// marker marks the object that has changed.
func marker(set keySet) func(before, after *item) {
	return func(before, after *item) {
		if after == nil {
			after = before
		}
		set.add(after.key)
	}
}

// sliceChanged marks the services of a slice: it may have moved from one to
// another.
func (w *world) sliceChanged(before, after *item) {
	if before != nil && before.owner != (discovery.Key{}) {
		w.own(before, false)
	}
	if after != nil && after.owner != (discovery.Key{}) {
		w.own(after, true)
		if trigger := after.value.(*discovery.Slice).Trigger; !trigger.IsZero() && !trigger.Equal(triggerOf(before)) {
			w.fresh = append(w.fresh, after)
		}
	}
}

func triggerOf(slice *item) time.Time {
	if slice == nil || slice.value.(*discovery.Slice) == nil {
		return time.Time{}
	}
	return slice.value.(*discovery.Slice).Trigger
}

// own gives a slice to its service or takes it away.
func (w *world) own(slice *item, member bool) {
	w.dirtyServices.add(slice.owner)
	list := w.slices[slice.owner]
	at, found := slices.BinarySearchFunc(list, slice.key.Name, func(i *item, name string) int { return strings.Compare(i.key.Name, name) })
	if found {
		list = slices.Delete(list, at, at+1)
	}
	if member {
		list = slices.Insert(list, at, slice)
	}
	if len(list) == 0 {
		delete(w.slices, slice.owner)
		return
	}
	w.slices[slice.owner] = list
}

// signal says that there is something to publish.
func (w *world) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it is known
	}
}

// missing returns the resources that were not delivered yet, sorted.
func (w *world) missing() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, t := range w.tables {
		if !t.listed {
			names = append(names, t.resource.name)
		}
	}
	slices.Sort(names)
	return names
}

// apply brings a store up to date with all that has changed. It returns the
// slices whose way here is to be measured.
func (w *world) apply(tx *discovery.Tx) (fresh []*item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.dirtyNamespaces {
		if i := w.namespaces.items[k]; i != nil {
			tx.PutNamespaceLabels(k.Name, i.value.(map[string]string))
		} else {
			tx.DeleteNamespace(k.Name)
		}
	}
	w.applyServices(tx)
	w.applyOthers(tx)
	tx.MarkSynced()
	for _, set := range []keySet{w.dirtyServices, w.dirtyNamespaces, w.dirtyNodes, w.dirtyRanges, w.dirtyPods} {
		clear(set)
	}
	fresh, w.fresh = w.fresh, nil
	return fresh
}

func (w *world) applyServices(tx *discovery.Tx) {
	for k := range w.dirtyServices {
		i := w.services.items[k]
		if i == nil {
			tx.DeleteService(k)
			continue
		}
		owned := make([]*discovery.Slice, 0, len(w.slices[k]))
		for _, slice := range w.slices[k] {
			owned = append(owned, slice.value.(*discovery.Slice))
		}
		tx.PutService(convert.Join(i.value.(*discovery.Service), owned))
	}
}

func (w *world) applyOthers(tx *discovery.Tx) {
	for k := range w.dirtyNodes {
		if i := w.nodes.items[k]; i != nil {
			tx.PutNode(i.value.(*discovery.Node))
		} else {
			tx.DeleteNode(k.Name)
		}
	}
	for k := range w.dirtyPods {
		if i := w.pods.items[k]; i != nil {
			tx.PutPod(i.value.(*discovery.Pod))
		} else {
			tx.DeletePod(k)
		}
	}
	if len(w.dirtyRanges) > 0 {
		tx.PutServiceCIDRs(w.allRanges())
	}
}

// allRanges are the ranges of all objects: few, so nobody needs to know which
// of them has changed.
func (w *world) allRanges() []netip.Prefix {
	var list []netip.Prefix
	for _, i := range w.ranges.items {
		list = append(list, i.value.([]netip.Prefix)...)
	}
	return list
}
