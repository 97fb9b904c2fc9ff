package discovery

import (
	"strings"
	"testing"
)

func TestLookupByBytes(t *testing.T) {
	long := strings.Repeat("n", 63) // longer than what the runtime converts on the stack
	store := NewStore()
	snap := store.Update(func(tx *Tx) {
		tx.PutService(&Service{Key: Key{Namespace: long, Name: long}})
		tx.PutPod(&Pod{Key: Key{Namespace: "pods", Name: "p"}})
		tx.PutNamespace("empty")
	})
	name := []byte(long)
	if s, ok := snap.Services.GetBytes(name, name); !ok || s.Key.Name != long {
		t.Errorf("GetBytes: got %v, %v", s, ok)
	}
	if _, ok := snap.Services.GetBytes([]byte("other"), name); ok {
		t.Error("GetBytes: found a service in a namespace that has none")
	}
	for _, ns := range []string{long, "pods", "empty", "missing"} {
		if got, want := snap.HasNamespaceBytes([]byte(ns)), snap.HasNamespace(ns); got != want {
			t.Errorf("HasNamespaceBytes(%q): got %v, want %v", ns, got, want)
		}
	}
	allocs := testing.AllocsPerRun(100, func() {
		snap.Services.GetBytes(name, name)
		snap.HasNamespaceBytes(name)
	})
	if allocs != 0 {
		t.Errorf("a lookup by bytes allocates %v times", allocs)
	}
}
