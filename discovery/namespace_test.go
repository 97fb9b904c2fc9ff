package discovery

import "testing"

func TestNamespaceLabels(t *testing.T) {
	t.Parallel()
	store := NewStore()
	put := func(labels map[string]string) *Snapshot {
		return store.Update(func(tx *Tx) { tx.PutNamespaceLabels("a", labels) })
	}
	first := put(map[string]string{"team": "blue"})
	if !first.Namespaces["a"] || first.NamespaceLabels["a"]["team"] != "blue" {
		t.Fatalf("after put: %v, %v", first.Namespaces, first.NamespaceLabels)
	}
	if again := put(map[string]string{"team": "blue"}); again != first {
		t.Error("equal labels published a revision")
	}
	store.Update(func(tx *Tx) {
		tx.DeleteNamespace("a")
		tx.PutNamespaceLabels("a", map[string]string{"team": "blue"})
	})
	if store.Current() != first {
		t.Error("labels put back as they were published a revision")
	}
	if red := put(map[string]string{"team": "red"}); red == first || first.NamespaceLabels["a"]["team"] != "blue" {
		t.Error("other labels: no new revision, or the old one changed")
	}
	if gone := store.Update(func(tx *Tx) { tx.DeleteNamespace("a") }); len(gone.NamespaceLabels) != 0 {
		t.Errorf("after delete: %v", gone.NamespaceLabels)
	}
}
