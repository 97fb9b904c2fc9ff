package manifest

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"signpost/discovery"
)

// FuzzManifest writes any bytes beside a good file: nothing panics, and no
// bytes remove what the other file has, or what the bytes before them had
// unless they can be understood.
func FuzzManifest(f *testing.F) {
	seeds, err := filepath.Glob("testdata/refused/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range seeds {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, false)
		f.Add(text, true)
	}
	for _, text := range []string{
		"", "---", "...\n---\n", "\x00", "a: &a [*a]", "{", "[", "kind: List\nitems:\n- \n-\n", "items:\n- a\nkind: List", "{\"kind\":\"List\",\"items\":[",
		"kind: Service\napiVersion: v1\nmetadata: {name: &x [a]}", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nstatus: {podIPs: [{}, {ip: x}]}",
		"apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {clusterIPs: [None, None], ports: [{}]}", "apiVersion: v1\nkind: Service\nmetadata: {name: keep}\nspec: {}",
	} {
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, isJSON bool) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "0.yaml"), []byte(service80("keep", "clusterIP: 10.96.200.200")))
		name := filepath.Join(dir, "fuzz.yaml")
		if isJSON {
			name = filepath.Join(dir, "fuzz.json")
		}
		write(t, name, []byte(service80("before", "clusterIP: 10.96.200.201")))
		e, err := newEngine(Config{Dir: dir, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		store := discovery.NewStore()
		turn := func() {
			paths, _ := e.look()
			e.accept(e.read(paths))
			if err := e.publish(store, true); err != nil {
				t.Fatal(err)
			}
		}
		turn()
		write(t, name, text)
		turn()
		if _, ok := store.Current().Services.Get(key("keep")); !ok {
			t.Error("another file's service is gone")
		}
		if len(e.ledger.byOwner[name]) > 0 && !e.world.has("before") && !isJSON {
			t.Error("bytes that can't be understood removed a service")
		}
		for _, p := range e.ledger.problems() {
			_ = p.String()
		}
		write(t, name, nil)
		turn()
		if n := store.Current().Services.Len(); n != 1 {
			t.Errorf("%d services are left", n)
		}
	})
}

func (w *world) has(name string) bool { return w.services[key(name)] != nil }

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzLocate: any text and any path have a line inside the text.
func FuzzLocate(f *testing.F) {
	f.Add([]byte("a:\n  b: [1, 2]\n"), "a.b[1]", false)
	f.Add([]byte("{\"a\": [\n1]}"), "a[0]", true)
	f.Add([]byte("a: &x\n- *x"), "a[0][0].b", false)
	f.Fuzz(func(t *testing.T, text []byte, path string, isJSON bool) {
		defer func() {
			if r := recover(); r != nil && isJSON {
				t.Error(r)
			}
		}()
		if line := lineOf(text, isJSON, path); line < 0 || line > len(text) {
			t.Errorf("line %d", line)
		}
		pathAt(text, int64(len(text)/2))
	})
}
