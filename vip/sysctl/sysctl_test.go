package sysctl

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEnsure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		present string // "": the setting does not exist
		setting Setting
		want    string // its value afterwards
		log     string // part of the log; "": nothing is logged
		fails   bool
	}{
		{name: "differs", present: "0\n", setting: Setting{Value: 1}, want: "1", log: "from=0 to=1"},
		{name: "is so already", present: "1\n", setting: Setting{Value: 1}, want: "1\n"},
		{name: "raised", present: "10", setting: Setting{Value: 20, AtLeast: true}, want: "20", log: "from=10 to=20"},
		{name: "never lowered", present: "30", setting: Setting{Value: 20, AtLeast: true}, want: "30"},
		{name: "missing", setting: Setting{Value: 1}, log: "level=WARN", fails: true},
		{name: "missing and optional", setting: Setting{Value: 1, Optional: true}},
		{name: "no number", present: "a b", setting: Setting{Value: 1}, want: "a b", log: "not a number", fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			path := filepath.Join(root, "setting")
			if c.present != "" {
				if err := os.WriteFile(path, []byte(c.present), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer
			c.setting.Name = "setting"
			err := Ensure(root, []Setting{c.setting}, slog.New(slog.NewTextHandler(&log, nil)))
			if (err != nil) != c.fails {
				t.Errorf("error %v, want one: %t", err, c.fails)
			}
			if got, _ := os.ReadFile(path); string(got) != c.want {
				t.Errorf("value %q, want %q", got, c.want)
			}
			if !strings.Contains(log.String(), c.log) || c.log == "" && log.Len() > 0 {
				t.Errorf("log %q, want %q in it", log.String(), c.log)
			}
		})
	}
}

// TestReadOnly is what a container without privileges sees (X16).
func TestReadOnly(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	// A directory in the setting's place refuses reads and writes, also root's.
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "setting"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := Ensure(root, []Setting{{Name: "setting", Value: 1, Why: "of a reason"}}, slog.New(slog.NewTextHandler(&log, nil)))
	if err == nil || !strings.Contains(log.String(), "of a reason") {
		t.Errorf("error %v, log %q: want both", err, log.String())
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	for cpus, want := range map[int]int{1: 131072, 4: 131072, 8: 262144} {
		if got := DefaultConntrack().Settings(cpus)[0].Value; got != want {
			t.Errorf("nf_conntrack_max with %d cores: %d, want %d", cpus, got, want)
		}
	}
}

func TestConntrackLimits(t *testing.T) {
	t.Parallel()
	text := func(l ConntrackLimits) string {
		var parts []string
		for _, s := range l.Settings(2) {
			parts = append(parts, fmt.Sprintf("%s=%d", strings.TrimPrefix(s.Name, conntrackFolder), s.Value))
		}
		return strings.Join(parts, " ")
	}
	for _, c := range []struct {
		name   string
		limits ConntrackLimits
		want   string
	}{
		{"kube-proxy's defaults", DefaultConntrack(), "max=131072 tcp_timeout_established=86400 tcp_timeout_close_wait=3600"},
		{"zero leaves the kernel's", ConntrackLimits{}, ""},
		{"no maximum", ConntrackLimits{Min: 5}, ""},
		{
			name:   "all",
			limits: ConntrackLimits{MaxPerCPU: 10, Min: 5, BeLiberal: true, UDP: time.Minute, UDPStream: 2 * time.Minute},
			want:   "max=20 tcp_be_liberal=1 udp_timeout=60 udp_timeout_stream=120",
		},
	} {
		if got := text(c.limits); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
