package discovery

import (
	"iter"
	"maps"
)

// Map is an immutable map from [Key] to V. Its zero value is empty.
//
// It has two levels, namespace and name; [Map.Edit] copies the outer level and
// those namespaces that it touches, and shares the rest with the map that it
// came from. A lookup is two Go map lookups.
type Map[V any] struct {
	namespaces map[string]*namespace[V]
	count      int
}

type namespace[V any] struct {
	entries map[string]V
}

// Len returns the number of entries.
func (m Map[V]) Len() int { return m.count }

// Get returns the value for the key and whether there is one.
func (m Map[V]) Get(k Key) (V, bool) {
	if ns := m.namespaces[k.Namespace]; ns != nil {
		v, ok := ns.entries[k.Name]
		return v, ok
	}
	var zero V
	return zero, false
}

// All yields every entry, in no order.
func (m Map[V]) All() iter.Seq2[Key, V] {
	return func(yield func(Key, V) bool) {
		for name, ns := range m.namespaces {
			for entry, v := range ns.entries {
				if !yield(Key{Namespace: name, Name: entry}, v) {
					return
				}
			}
		}
	}
}

// Namespace yields the entries of one namespace by name, in no order.
func (m Map[V]) Namespace(name string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		ns := m.namespaces[name]
		if ns == nil {
			return
		}
		for entry, v := range ns.entries {
			if !yield(entry, v) {
				return
			}
		}
	}
}

// HasNamespace reports whether the map has an entry in that namespace.
func (m Map[V]) HasNamespace(name string) bool { return m.namespaces[name] != nil }

// Edit starts a change of the map. The map itself stays as it is.
func (m Map[V]) Edit() *Editor[V] { return &Editor[V]{base: m, next: m} }

// Editor collects changes to a [Map]. It is for one goroutine and one use.
type Editor[V any] struct {
	base, next Map[V]
	outerOwned bool
}

// Get returns the value for the key as the changes so far leave it.
func (e *Editor[V]) Get(k Key) (V, bool) { return e.next.Get(k) }

// Set stores a value.
func (e *Editor[V]) Set(k Key, v V) {
	ns := e.own(k.Namespace)
	if _, exists := ns.entries[k.Name]; !exists {
		e.next.count++
	}
	ns.entries[k.Name] = v
}

// Delete removes a value; a key that has none is no error.
func (e *Editor[V]) Delete(k Key) {
	if _, exists := e.next.Get(k); !exists {
		return
	}
	ns := e.own(k.Namespace)
	delete(ns.entries, k.Name)
	e.next.count--
	if len(ns.entries) == 0 {
		delete(e.next.namespaces, k.Namespace)
	}
}

// Map returns the result. The editor must not be used after it.
func (e *Editor[V]) Map() Map[V] { return e.next }

// own returns the namespace as a copy that belongs to this editor alone.
func (e *Editor[V]) own(name string) *namespace[V] {
	if !e.outerOwned {
		e.next.namespaces = maps.Clone(e.next.namespaces)
		if e.next.namespaces == nil {
			e.next.namespaces = map[string]*namespace[V]{}
		}
		e.outerOwned = true
	}
	current := e.next.namespaces[name]
	if current != nil && current != e.base.namespaces[name] {
		return current
	}
	owned := &namespace[V]{entries: map[string]V{}}
	if current != nil {
		owned.entries = maps.Clone(current.entries)
	}
	e.next.namespaces[name] = owned
	return owned
}

// Diff calls changed for each key whose value differs between two maps, or
// that only one of them has; a missing value is given as V's zero value.
// Values are compared with ==; namespaces that the maps share are skipped
// without a look inside, so the cost follows the change when both maps stem
// from one another. The order is not defined.
func Diff[V comparable](before, after Map[V], changed func(k Key, before, after V)) {
	var none V
	for name, ns := range after.namespaces {
		old := before.namespaces[name]
		if old == ns {
			continue
		}
		diffNamespace(name, old, ns, changed)
	}
	for name, old := range before.namespaces {
		if after.namespaces[name] != nil {
			continue
		}
		for entry, v := range old.entries {
			changed(Key{Namespace: name, Name: entry}, v, none)
		}
	}
}

func diffNamespace[V comparable](name string, before, after *namespace[V], changed func(k Key, before, after V)) {
	var none V
	var old map[string]V
	if before != nil {
		old = before.entries
	}
	for entry, v := range after.entries {
		if was, existed := old[entry]; !existed || was != v {
			changed(Key{Namespace: name, Name: entry}, was, v)
		}
	}
	for entry, v := range old {
		if _, still := after.entries[entry]; !still {
			changed(Key{Namespace: name, Name: entry}, v, none)
		}
	}
}

// Derive brings a view of a map up to date: for every key whose value differs
// between before and after, f gives the view's new value, and false drops it.
// The view must be what f made of before; the view of an empty map is an empty
// map.
func Derive[V comparable, W any](view Map[W], before, after Map[V], f func(Key, V) (W, bool)) Map[W] {
	edit := view.Edit()
	Diff(before, after, func(k Key, _, now V) {
		if _, exists := after.Get(k); exists {
			if w, keep := f(k, now); keep {
				edit.Set(k, w)
				return
			}
		}
		edit.Delete(k)
	})
	return edit.Map()
}
