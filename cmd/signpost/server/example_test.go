package server

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signpost/cmd/signpost/corefile"
)

const root = "../../.." // of the repository

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// onOtherPorts moves a Corefile to free ports, a temporary folder (DIR) and
// addresses of its own, so that it can be served beside anything else. The
// manifests move with it.
func onOtherPorts(text, network string) string {
	text = regexp.MustCompile(`(?m)^(\S+):\d+ \{`).ReplaceAllString(text, "$1:0 {")
	text = regexp.MustCompile(`(?m)^( +(?:health|ready|prometheus|healthz)) \S*:\d+`).ReplaceAllString(text, "$1 127.0.0.1:0")
	return strings.NewReplacer(
		"127.96.", network, "bind 0.0.0.0", "bind 127.0.0.1", "/etc/resolv.conf", "DIR/resolv.conf",
		"manifests examples/quickstart/manifests", "manifests DIR/manifests", "manifests .run/manifests", "manifests DIR/manifests",
		"state allocations.yaml", "state DIR/state.yaml", "state .run/allocations.yaml", "state DIR/state.yaml",
		"unix:///run/signpost.sock", "unix://DIR/a.sock", "unix://.run/signpost.sock", "unix://DIR/a.sock",
		"cert.pem key.pem", "DIR/cert.pem DIR/key.pem", " ca.pem", " DIR/ca.pem", "my.hosts", "DIR/my.hosts", "to 127.0.0.1", "to 127.0.0.1:9",
		"node_port_addresses 127.0.0.0/8", "node_port_addresses 192.0.2.0/24", "127.97.0.0/24", "127.92.0.0/24",
	).Replace(text)
}

// TestExamples boots the Corefiles that the repository shows.
func TestExamples(t *testing.T) {
	tests := []struct{ file, network string }{
		{"Corefile.example", "127.90."},
		{"examples/quickstart/Corefile", "127.91."},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			t.Setenv("NODE_NAME", "quickstart")
			manifests := map[string]string{"../resolv.conf": "nameserver 192.0.2.1\n"}
			files, err := filepath.Glob(filepath.Join(root, "examples/quickstart/manifests/*.yaml"))
			if err != nil || len(files) == 0 {
				t.Fatalf("finding manifests: %v", err)
			}
			for _, file := range files {
				name := filepath.Base(file)
				text := readFile(t, filepath.Join("examples/quickstart/manifests", name))
				manifests[name] = strings.ReplaceAll(text, "127.96.", tt.network)
			}
			manifests["../cert.pem"], manifests["../key.pem"] = certificate(t)
			r := start(t, onOtherPorts(readFile(t, tt.file), tt.network), manifests)
			r.ready()
			if got := r.query("web.default.svc.cluster.local.", "A"); len(got) != 1 || got[0] != tt.network+"0.80" {
				t.Errorf("web: %q\n%s", got, r.logs)
			}
			if got := r.query("db-0.db.default.svc.cluster.local.", "A"); len(got) != 1 || got[0] != "127.1.1.1" {
				t.Errorf("db-0: %q", got)
			}
			if mode := r.view().Status.Mode; mode != "userspace" {
				t.Errorf("mode %q", mode)
			}
		})
	}
}

// TestExampleNamesEverything keeps Corefile.example complete: every directive
// stands in it, and every line of it is explained.
func TestExampleNamesEverything(t *testing.T) {
	t.Parallel()
	text := readFile(t, "Corefile.example")
	for _, name := range corefile.Directives() {
		if !regexp.MustCompile(`(?m)^ +` + name + `\b`).MatchString(text) {
			t.Errorf("directive %s does not stand in Corefile.example", name)
		}
	}
	before := ""
	for line := range strings.SplitSeq(text, "\n") {
		isCode := strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") && strings.TrimSpace(line) != "}"
		if isCode && !strings.Contains(line, "#") && !strings.HasPrefix(strings.TrimSpace(before), "#") {
			t.Errorf("line without a comment: %s", line)
		}
		before = line
	}
}
