package manifest

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// definition is one place that describes an object.
type definition struct {
	doc    *document
	object *object
}

// definitions knows, for each object, the places that describe it, and which
// of them is in force.
type definitions struct {
	all       map[objectID][]definition
	contested map[objectID]bool // have more than one
	inForce   map[objectID]definition
	ledger    *ledger
}

func newDefinitions(l *ledger) *definitions {
	return &definitions{
		all: map[objectID][]definition{}, contested: map[objectID]bool{},
		inForce: map[objectID]definition{}, ledger: l,
	}
}

// update takes over documents that came and went and returns the objects that
// have to be looked at.
func (ds *definitions) update(added, removed []*document) map[objectID]bool {
	touched := map[objectID]bool{}
	for _, d := range removed {
		for _, o := range d.content.objects {
			ds.all[o.id] = slices.DeleteFunc(ds.all[o.id], func(def definition) bool { return def.object == o })
			touched[o.id] = true
		}
	}
	for _, d := range added {
		for _, o := range d.content.objects {
			ds.all[o.id] = append(ds.all[o.id], definition{doc: d, object: o})
			touched[o.id] = true
		}
	}
	for id := range ds.contested {
		touched[id] = true // their order may have changed
	}
	return touched
}

// decide says which definition of an object is in force, and whether that is
// another one than before: the first by path and place. If the first is
// refused, the last good version of the object stays; if there was none, the
// first good one counts.
func (ds *definitions) decide(id objectID) (now runtime.Object, changed bool) {
	list := ds.all[id]
	before, existed := ds.inForce[id]
	slices.SortStableFunc(list, compareDefinitions)
	if len(list) > 1 {
		ds.contested[id] = true
	} else {
		delete(ds.contested, id)
	}
	chosen := choose(list, existed)
	ds.ledger.set(id, findings(list, chosen))
	switch {
	case len(list) == 0:
		delete(ds.all, id)
		delete(ds.inForce, id)
		return nil, existed
	case chosen < 0:
		return before.object.apiOrNil(), false
	default:
		ds.inForce[id] = list[chosen]
		return list[chosen].object.api, !existed || before.object != list[chosen].object
	}
}

// choose returns the index of the definition to use, or -1 for none or the
// last good one.
func choose(list []definition, existed bool) int {
	if len(list) == 0 || existed && len(list[0].object.refused) > 0 {
		return -1
	}
	return slices.IndexFunc(list, func(d definition) bool { return len(d.object.refused) == 0 })
}

func compareDefinitions(a, b definition) int {
	return cmp.Or(
		cmp.Compare(a.doc.file.path, b.doc.file.path), cmp.Compare(a.doc.index, b.doc.index),
		cmp.Compare(a.object.place, b.object.place),
	)
}

// findings lists what is wrong with an object's definitions.
func findings(list []definition, chosen int) []finding {
	var found []finding
	for i, d := range list {
		for _, f := range d.object.refused {
			found = append(found, d.doc.finding(f, d.object, false))
		}
		for _, f := range d.object.warnings {
			found = append(found, d.doc.finding(f, d.object, true))
		}
		if i > 0 && i != chosen {
			first := list[0].doc
			reason := fmt.Sprintf("defined already at %s:%d: this definition is not used", first.file.path, first.line+list[0].object.line)
			found = append(found, d.doc.finding(fault{line: d.object.line, reason: reason}, d.object, false))
		}
	}
	return found
}
