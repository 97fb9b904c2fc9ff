package discovery

import "maps"

// PutNamespaceLabels says that a namespace exists and which labels it has. The
// caller must not change the labels afterwards.
func (tx *Tx) PutNamespaceLabels(name string, labels map[string]string) {
	tx.PutNamespace(name)
	tx.putLabels(name, labels)
}

func (tx *Tx) putLabels(name string, labels map[string]string) {
	if maps.Equal(tx.labels[name], labels) {
		return
	}
	if !tx.labelsOwned {
		tx.labels, tx.labelsOwned = cloneOrMake(tx.labels), true
	}
	if len(labels) == 0 {
		delete(tx.labels, name)
		return
	}
	tx.labels[name] = labels
}

// sameLabels reports whether every namespace has the labels it began with.
func (tx *Tx) sameLabels() bool {
	return !tx.labelsOwned || maps.EqualFunc(tx.labels, tx.before.NamespaceLabels, maps.Equal[map[string]string, map[string]string])
}
