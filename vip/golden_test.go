package vip_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"signpost/vip"
	"signpost/vip/viptest"
)

var update = flag.Bool("update", false, "rewrite the plans in testdata")

// TestTranscripts compares each world in testdata with the plan below it.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("listing transcripts: %v, %d files", err, len(files))
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		updated := &txtar.Archive{Comment: archive.Comment}
		for _, world := range archive.Files {
			name, isWorld := strings.CutSuffix(world.Name, ".world")
			if !isWorld {
				continue
			}
			got := planText(t, string(world.Data))
			updated.Files = append(updated.Files, world, txtar.File{Name: name + ".plan", Data: []byte(got)})
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				if diff := cmp.Diff(find(archive, name+".plan"), got); diff != "" && !*update {
					t.Errorf("plan (-want +got):\n%s", diff)
				}
			})
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(updated), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func planText(t *testing.T, world string) string {
	t.Helper()
	w, err := viptest.ParseWorld(world)
	if err != nil {
		t.Fatal(err)
	}
	return vip.Planner{}.Plan(w.Snapshot, w.Node).String()
}

func find(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}
