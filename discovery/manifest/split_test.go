package manifest

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path, text string
		want             []string // line: text
	}{
		{"nothing", "a.yaml", "", nil},
		{"only comments", "a.yaml", "# a\n---\n\n  # b\n", nil},
		{"documents", "a.yaml", "a: 1\n---\nb: 2\n...\nc: 3", []string{"1: a: 1", "2: b: 2", "4: c: 3"}},
		{"byte order mark", "a.yaml", "\xef\xbb\xbf---\r\na: 1\r\n", []string{"1: a: 1"}},
		{"a marker with a comment", "a.yaml", "--- # x\na: 1\n", []string{"1: # x a: 1"}},
		{"no marker inside a line or a longer word", "a.yaml", "a: |\n  ---\n  b\nc: ---\n", []string{"1: a: | --- b c: ---"}},
		{"a directive", "a.yaml", "%YAML 1.2\n---\na: 1", []string{"2: a: 1"}},
		{"JSON values", "a.json", "{\"a\":1}\n{\n\"b\":2}", []string{`1: {"a":1}`, `2: { "b":2}`}},
		{"JSON in YAML", "a.yaml", "---\n{\"a\":1}\n---\nb: 1", []string{`2: {"a":1}`, "3: b: 1"}},
		{"flow YAML is no JSON", "a.yaml", "{a: 1}", []string{"1: {a: 1}"}},
		{"broken JSON", "a.json", "{\"a\":1}\n{\"b\":", []string{`1: {"a":1}`, `1: {"b":`}},
		{
			"a list as kubectl prints it", "a.yaml", "apiVersion: v1\nitems:\n- a: 1\n  b:\n  - c\n- a: 2\nkind: List\n",
			[]string{"3: a: 1 b: - c", "6: a: 2"},
		},
		{"an indented list", "a.yaml", "kind: PodList\nitems:\n  - a: 1\n  # x\n  - a: 2\n", []string{"3: a: 1 # x", "5: a: 2"}},
		{"a list with anchors stays whole", "a.yaml", "kind: List\nitems:\n- &x a\n- *x\n", []string{"1: kind: List items: - &x a - *x"}},
		{"items of something else", "a.yaml", "kind: ConfigMap\nitems:\n- a: 1\n", []string{"1: kind: ConfigMap items: - a: 1"}},
		{"a JSON list", "a.json", "{\"kind\": \"List\", \"items\": [\n{\"a\":1},\n{\"a\":2}]}", []string{`2: {"a":1}`, `3: {"a":2}`}},
		{"an empty JSON list", "a.json", `{"kind": "List", "items": []}`, nil},
		{"a JSON list without items", "a.json", `{"kind": "List"}`, []string{`1: {"kind": "List"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, ch := range split(c.path, []byte(c.text), maphash.MakeSeed()) {
				got = append(got, fmt.Sprintf("%d: %s", ch.line, strings.Join(strings.Fields(string(ch.text)), " ")))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLineOf(t *testing.T) {
	t.Parallel()
	const yamlText = "# c\na:\n  b:\n  - c: 1\n    d: 2\n  - {c: 3,\n     d: 4}\n  'x.y/z': 5\n  one: 6\nempty:\n"
	const jsonText = "{\"a\": {\n\"b\": [\n{\"c\": 1},\n{\"d\":\n2}]\n}}"
	for _, c := range []struct {
		text, path string
		want       int
	}{
		{yamlText, "", 1},
		{yamlText, "a", 1},
		{yamlText, "a.b", 2},
		{yamlText, "a.b[0]", 3},
		{yamlText, "a.b[0].d", 4},
		{yamlText, "a.b[1].d", 6},
		{yamlText, "a.b[0].missing", 3},
		{yamlText, "a.b[7]", 2},
		{yamlText, "a[x.y/z]", 7},
		{yamlText, "a.ones[0]", 8},
		{yamlText, "empty.x.y", 9},
		{yamlText, "nothing", 1},
		{"[", "a", 0},
		{jsonText, "a.b[1].d", 4},
		{jsonText, "a.b[0]", 2},
		{jsonText, "a.x", 0},
	} {
		if got := lineOf([]byte(c.text), c.text[0] == '{', c.path); got != c.want {
			t.Errorf("%q: got %d, want %d", c.path, got, c.want)
		}
	}
}

// TestOneDocumentOfMany: a change of one document leaves the others undecoded.
func TestOneDocumentOfMany(t *testing.T) {
	t.Parallel()
	var parts []string
	for i := range 100 {
		parts = append(parts, service80(fmt.Sprintf("s%d", i)))
	}
	f := newFolder(t)
	f.write("a.yaml", strings.Join(parts, ""))
	f.start()
	e := f.source.engine
	for _, c := range []struct {
		name           string
		change         func()
		added, removed int
	}{
		{"one changes", func() { parts[50] = service80("s50", "sessionAffinity: ClientIP") }, 1, 1},
		{"one comes first", func() { parts = append([]string{service80("first")}, parts...) }, 1, 0},
		{"one goes", func() { parts = append(parts[:30:30], parts[31:]...) }, 0, 1},
		{"two swap", func() { parts[3], parts[60] = parts[60], parts[3] }, 0, 0},
	} {
		c.change()
		f.must(f.stopThenWrite("a.yaml", strings.Join(parts, "")))
		changes := e.read([]string{f.path("a.yaml")})
		if got := changes[0]; len(got.added) != c.added || len(got.removed) != c.removed || len(got.docs) != len(parts) {
			t.Errorf("%s: %d added, %d removed, %d in all", c.name, len(got.added), len(got.removed), len(got.docs))
		}
		e.accept(changes)
	}
}
