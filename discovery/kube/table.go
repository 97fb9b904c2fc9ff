package kube

import (
	"errors"
	"time"

	"k8s.io/client-go/tools/cache"

	"signpost/discovery"
)

// errEmptied is why a list is not believed yet; see [table.Replace].
var errEmptied = errors.New("the API server lists none at all where there were some: not believed yet")

// table holds the objects of one kind. A reflector keeps it current; every
// change marks in the world what has to be published.
type table struct {
	world    *world
	resource *resource
	items    map[discovery.Key]*item
	listed   bool      // everything was delivered once, or nobody waits for it
	emptied  time.Time // since when an empty list is doubted; zero: it isn't
	// changed is told of every difference, with the world locked; one of the
	// two may be nil.
	changed func(before, after *item)
}

var _ cache.ReflectorStore = (*table)(nil)

// find returns the present version of an object; nil: there is none.
func (t *table) find(k discovery.Key) *item {
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	return t.items[k]
}

// Add implements [cache.ReflectorStore].
func (t *table) Add(obj any) error { return t.put(obj) }

// Update implements [cache.ReflectorStore].
func (t *table) Update(obj any) error { return t.put(obj) }

func (t *table) put(obj any) error {
	now := obj.(*item)
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	t.emptied = time.Time{}
	if before := t.items[now.key]; before != now {
		t.items[now.key] = now
		t.changed(before, now)
		t.world.signal()
	}
	return nil
}

// Delete implements [cache.ReflectorStore].
func (t *table) Delete(obj any) error {
	key := obj.(*item).key
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	if before := t.items[key]; before != nil {
		delete(t.items, key)
		t.changed(before, nil)
		t.world.signal()
	}
	return nil
}

// Replace implements [cache.ReflectorStore]: the list is everything that
// exists. What is not in it is gone, with one exception: a list with nothing in
// it, where there was something, is more likely a server without its data than
// a cluster without Services. It counts once it has stayed so for a while
// (vip-requirements P-23).
func (t *table) Replace(list []any, _ string) error {
	err := t.replace(list)
	if err != nil {
		t.world.health.failed(t.resource.name, err)
	} else {
		t.world.health.recovered(t.resource.name)
	}
	return err
}

func (t *table) replace(list []any) error {
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	if len(list) == 0 && len(t.items) > 0 && t.doubts() {
		return errEmptied
	}
	t.emptied = time.Time{}
	before := t.items
	t.items = make(map[discovery.Key]*item, len(list))
	for _, obj := range list {
		now := obj.(*item)
		t.items[now.key] = now
		if was := before[now.key]; was != now {
			t.changed(was, now)
		}
	}
	for key, was := range before {
		if t.items[key] == nil {
			t.changed(was, nil)
		}
	}
	t.listed = true
	t.world.signal()
	return nil
}

// doubts reports whether an empty list is too new to be believed.
func (t *table) doubts() bool {
	if t.emptied.IsZero() {
		t.emptied = time.Now()
	}
	return time.Since(t.emptied) < t.world.doubt
}

// settle ends the waiting for a kind that is optional: it was asked for once.
func (t *table) settle() {
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	if t.resource.optional && !t.listed {
		t.listed = true
		t.world.signal()
	}
}

// Resync implements [cache.ReflectorStore]; there is nothing to do again.
func (*table) Resync() error { return nil }
