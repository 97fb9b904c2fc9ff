package server

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"signpost/cmd/signpost/corefile"
)

// The Corefile of the DaemonSet has no problems, and asks for the rights that
// deploy/rbac.yaml gives.
func TestDaemonSetCorefile(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NODE_IP", "127.0.0.1")
	t.Setenv("NODE_NAME", "node-1")
	found := 0
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		if o.Data["Corefile"] == "" {
			continue
		}
		found++
		config, err := corefile.Parse("Corefile", []byte(strings.Replace(o.Data["Corefile"], "CONTROL-PLANE", "192.0.2.10", 1)), corefile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := Check(config, Options{Log: slog.New(slog.DiscardHandler)}); err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
		if api, err := findAPIServer(config); err != nil || !api.config.Nodes || api.config.Pods {
			t.Errorf("asks for %+v: %v", api.config, err)
		}
	}
	if found != 1 {
		t.Errorf("%d Corefiles", found)
	}
}
