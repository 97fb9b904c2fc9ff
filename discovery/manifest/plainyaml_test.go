package manifest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var plainTexts = []string{
	podText(1, 2, "True"), serviceText(1, true), sliceText(3),
	"a: 1\nb:\n- c: x\n  d: [] \n-\n- 5\n- e:\n  - f\n  g: {}\nh:\n  i: 10.0.0.0/8\n",
	"a: {b: c, d: [1, 2], e: {}, f: []}\nb: [{c: 'd', e: 10.0.0.1}, {c: \"x, y\"}]\nc:\n- {d: e}\n- [f, g ]\n",
	"a:\nb: null\nc: true\nd: 'x y'\ne: \"z: #\"\nf: a b:c\n",
	"  apiVersion: v1\n  kind: Pod\n",
	"a:\n  b: c\n d: e\n", "a: b\n  c\n", "a: b: c\n", "a: &x b\nc: *x\n", "a: yes\nno: b\n", "a: 1.5\nb: 010\nc: 1_0\n",
	"a: b\na: c\n", "a: |\n  b\n", "- a\n", "a: b # c\n", "a:\n\t- b\n", "a: 2001:db8::1\n", "a: b\n---\nc: d\n", "a: -1\nb: +1\nc: .5\n",
	"a: 1.2.3.\nb: ...1\n", "a: 0x10\nb: 1e3\nc: 1:30:00\nd: 2024-01-01\n", "a:b\n", "a: {b}\n", "a: {b: }\n", "a: [b, ]\n", "a: [b c]\n", "a: {b: c\n", "a: [b] c\n", "a: [b: c]\n", "a: {b: c} # d\n", "a: [,]\n", "a: {b: c, b: d}\n", "a: [b#c, d #e]\n", "a: [yes]\n", "a: {b:c}\n", "a: [a'b]\n", "a: \n#\xd3", "a: b # \x01\n", strings.Repeat("k", 1100) + ": b\n", "a:  \n  - b\n  -   c: d\n      e: f\n",
}

func TestPlainIsWhatManifestsAre(t *testing.T) {
	t.Parallel()
	for _, text := range plainTexts[:7] {
		if _, ok := plainToJSON([]byte(text)); !ok {
			t.Errorf("not understood: %s", text)
		}
	}
}

// FuzzPlainYAML: whatever the fast reader understands, the library understands
// in the same way.
func FuzzPlainYAML(f *testing.F) {
	for _, text := range plainTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := plainToJSON(text)
		if !ok {
			return
		}
		want, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			t.Fatalf("%q is understood as %s, but is wrong: %v", text, got, err)
		}
		if !reflect.DeepEqual(decodeAny(t, got), decodeAny(t, want)) {
			t.Errorf("%q is understood as %s, means %s", text, got, want)
		}
	})
}

func decodeAny(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func BenchmarkDecodePod(b *testing.B) {
	d := decoder{}
	text := []byte(podText(1, 2, "True"))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if c := d.decode(chunk{text: text}); len(c.objects) != 1 || len(c.objects[0].refused) > 0 {
			b.Fatal(c)
		}
	}
}
