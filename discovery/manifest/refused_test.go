package manifest

import (
	"flag"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("update", false, "rewrite the expected files")

// TestRefused, X10: every object that an API server would
// refuse is named with its line, field and reason, and takes down no other.
func TestRefused(t *testing.T) {
	t.Parallel()
	const dir, want = "testdata/refused", "testdata/refused/problems.txt"
	got, err := Load(Config{Dir: dir, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, p := range got.Problems {
		if p.Warning {
			text.WriteString("warning: ")
		}
		text.WriteString(p.String() + "\n")
	}
	if *rewrite {
		if err := os.WriteFile(want, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expected, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(expected), text.String()); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"web", "outside", "zz-late", "n-first", "o-first", "m-unknown", "json-good"} {
		if _, ok := got.Snapshot.Services.Get(key(name)); !ok {
			t.Errorf("service %q is not there", name)
		}
	}
	if n := got.Snapshot.Services.Len(); n != 7 {
		t.Errorf("%d services", n)
	}
}
