package ipvs

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// proc makes a folder of settings, all at 0.
func proc(t *testing.T, list []sysctl) string {
	t.Helper()
	root := t.TempDir()
	for _, s := range list {
		path := filepath.Join(root, s.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestAdjust(t *testing.T) {
	t.Parallel()
	list := settings(true, true, "6.1.0-28-amd64")
	root := proc(t, list[:3])
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	adjust(root, list, log)
	text := out.String()
	if n := strings.Count(text, "\n"); n != 2 {
		t.Errorf("log lines: got %d, want one for what changed and one for what can't be:\n%s", n, text)
	}
	for _, want := range []string{"ipv4/vs/conntrack=1 ipv4/vs/expire_nodest_conn=1", "level=WARN", "ipv4/ip_forward=1 (else no packet"} {
		if !strings.Contains(text, want) {
			t.Errorf("log: %q is missing in\n%s", want, text)
		}
	}
	out.Reset()
	adjust(root, list[:3], log)
	if out.Len() > 0 {
		t.Errorf("settings that are right: logged %s", out.String())
	}
}

func TestReuseDelays(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]bool{
		"3.16.0": false, "4.1.0": true, "4.19.0-27-amd64": true, "5.8": true, "5.9.0": false, "6.1.192": false, "6-rc": false, "": false,
	} {
		if got := reuseDelays(release); got != want {
			t.Errorf("kernel %q: got %t, want %t", release, got, want)
		}
	}
}
