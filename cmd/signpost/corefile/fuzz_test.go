package corefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// FuzzParse gives the parser any text: it must not panic, and every problem
// has to name a file, a line and what is wrong.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	f.Add([]byte(Default))
	f.Add([]byte("(a) {\nimport b\n}\n(b) {\nimport a\n}\n. {\nimport a\n}"))
	f.Add([]byte(". {\nkubernetes\n{\nttl\n{\n}\n}\n}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if reachesFiles(text) {
			t.Skip("an import of files reads this machine")
		}
		config, err := Parse("Corefile", text, Options{})
		if config == nil {
			t.Fatal("no config")
		}
		var all Errors
		if err == nil {
			return
		}
		if !errors.As(err, &all) || len(all) == 0 {
			t.Fatalf("error %v: want Errors", err)
		}
		for _, e := range all {
			if e.File == "" || e.Line < 1 || e.Problem == "" {
				t.Errorf("problem without place or text: %#v", e)
			}
		}
	})
}

// reachesFiles reports whether an import could open anything outside of this
// package's folder, or multiplies itself up to the parser's limit of 10,000.
func reachesFiles(text []byte) bool {
	s := string(text)
	return strings.Count(s, "import") > 3 || strings.Contains(s, "import") && (strings.ContainsRune(s, os.PathSeparator) || strings.Contains(s, "{$") || strings.Contains(s, "{%"))
}
