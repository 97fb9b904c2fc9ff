package discovery

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzMap runs a program of three-byte steps (what, key, value) against a
// plain Go map, and after each edit compares Get, All, Namespace, Diff and
// Derive with what the plain maps say.
func FuzzMap(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 2, 0, 3, 0, 0, 1, 1, 0, 3, 0, 0})
	f.Add([]byte{0, 9, 4, 1, 9, 0, 0, 9, 4, 3, 0, 0, 0, 9, 5, 3, 0, 0, 1, 9, 0})
	f.Fuzz(func(t *testing.T, program []byte) {
		m, oracle := Map[int]{}, map[Key]int{}
		view := Map[int]{}
		for len(program) > 0 {
			before, oracleBefore := m, maps.Clone(oracle)
			edit := m.Edit()
			program = runEdit(t, program, edit, oracle)
			m = edit.Map()
			checkMap(t, before, oracleBefore) // the old one stays as it was
			checkMap(t, m, oracle)
			checkDiff(t, before, m, oracleBefore, oracle)
			view = checkDerive(t, view, before, m, oracleBefore, oracle)
		}
	})
}

// runEdit applies steps until one says that the edit ends, and returns the rest.
func runEdit(t *testing.T, program []byte, edit *Editor[int], oracle map[Key]int) []byte {
	for len(program) >= 3 {
		what, key, value := program[0]%4, fuzzKey(program[1]), int(program[2]%3) // 0 is a value like any other
		program = program[3:]
		switch what {
		case 0, 2:
			edit.Set(key, value)
			oracle[key] = value
		case 1:
			edit.Delete(key)
			delete(oracle, key)
		default:
			return program
		}
		got, ok := edit.Get(key)
		want, exists := oracle[key]
		if got != want || ok != exists {
			t.Fatalf("Editor.Get(%v) = %v, %v; want %v, %v", key, got, ok, want, exists)
		}
	}
	return nil
}

func fuzzKey(b byte) Key {
	return Key{Namespace: string(rune('a' + b%4)), Name: string(rune('p' + b/4%8))}
}

func checkMap(t *testing.T, m Map[int], oracle map[Key]int) {
	t.Helper()
	if diff := cmp.Diff(oracle, maps.Collect(m.All())); diff != "" || m.Len() != len(oracle) {
		t.Fatalf("All differs, Len %d, want %d:\n%s", m.Len(), len(oracle), diff)
	}
	for ns := range 5 {
		name := string(rune('a' + ns))
		want := map[string]int{}
		for k, v := range oracle {
			if k.Namespace == name {
				want[k.Name] = v
			}
		}
		if got := maps.Collect(m.Namespace(name)); !maps.Equal(got, want) || m.HasNamespace(name) != (len(want) > 0) {
			t.Fatalf("Namespace(%q) = %v, want %v; HasNamespace %v", name, got, want, m.HasNamespace(name))
		}
	}
}

type change struct{ Before, After int }

func checkDiff(t *testing.T, before, after Map[int], oldOracle, oracle map[Key]int) {
	t.Helper()
	got := map[Key]change{}
	Diff(before, after, func(k Key, was, now int) {
		if _, twice := got[k]; twice {
			t.Fatalf("Diff calls twice for %v", k)
		}
		got[k] = change{was, now}
	})
	if diff := cmp.Diff(naiveDiff(oldOracle, oracle), got); diff != "" {
		t.Fatalf("Diff:\n%s", diff)
	}
}

func naiveDiff(before, after map[Key]int) map[Key]change {
	diff := map[Key]change{}
	for k, now := range after {
		if was, existed := before[k]; !existed || was != now {
			diff[k] = change{was, now}
		}
	}
	for k, was := range before {
		if _, exists := after[k]; !exists {
			diff[k] = change{was, 0}
		}
	}
	return diff
}

// checkDerive keeps a view of squares that leaves out the value 2, and
// compares it with one that is built from nothing.
func checkDerive(t *testing.T, view, before, after Map[int], oldOracle, oracle map[Key]int) Map[int] {
	t.Helper()
	square := func(_ Key, v int) (int, bool) { return v * v, v != 2 }
	calls := 0
	view = Derive(view, before, after, func(k Key, v int) (int, bool) { calls++; return square(k, v) })
	want := map[Key]int{}
	for k, v := range oracle {
		if s, keep := square(k, v); keep {
			want[k] = s
		}
	}
	checkMap(t, view, want)
	if limit := len(naiveDiff(oldOracle, oracle)); calls > limit {
		t.Fatalf("Derive asked %d times for %d changes", calls, limit)
	}
	return view
}

func TestMapSharesUntouchedNamespaces(t *testing.T) {
	t.Parallel()
	edit := Map[int]{}.Edit()
	edit.Set(Key{"a", "x"}, 1)
	edit.Set(Key{"b", "x"}, 1)
	before := edit.Map()
	edit = before.Edit()
	edit.Set(Key{"a", "y"}, 2)
	after := edit.Map()
	if before.namespaces["b"] != after.namespaces["b"] {
		t.Error("namespace b was copied without a change in it")
	}
	if before.namespaces["a"] == after.namespaces["a"] || before.Len() != 2 || after.Len() != 3 {
		t.Error("namespace a was changed in place")
	}
	if untouched := after.Edit().Map(); untouched.namespaces["a"] != after.namespaces["a"] {
		t.Error("an edit without changes made copies")
	}
}

func TestMapIterationStopsEarly(t *testing.T) {
	t.Parallel()
	edit := Map[int]{}.Edit()
	for _, name := range []string{"x", "y", "z"} {
		edit.Set(Key{"a", name}, 1)
	}
	m := edit.Map()
	seen := 0
	for range m.All() {
		seen++
		break
	}
	for range m.Namespace("a") {
		seen++
		break
	}
	for range m.Namespace("none") {
		seen++
	}
	if seen != 2 {
		t.Errorf("saw %d entries, want one of each loop", seen)
	}
}
