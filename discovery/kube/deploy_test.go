package kube

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// Least privilege: the ClusterRole allows to list and watch what the source
// can ask for, and to write events, no more and no less.
func TestRBAC(t *testing.T) {
	text, err := os.ReadFile("../../deploy/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o struct {
			Kind  string
			Rules []struct{ APIGroups, Resources, Verbs []string }
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		for _, rule := range o.Rules {
			for _, r := range rule.Resources {
				allowed = append(allowed, fmt.Sprintf("%v %v %s", rule.Verbs, rule.APIGroups, r))
			}
		}
	}
	wanted := []string{"[create] [events.k8s.io] events"}
	for _, table := range newWorld(&Config{Nodes: true, Pods: true}, nil).tables {
		wanted = append(wanted, fmt.Sprintf("[list watch] [%s] %s", table.resource.group.Group, table.resource.name))
	}
	slices.Sort(allowed)
	slices.Sort(wanted)
	if diff := cmp.Diff(wanted, allowed); diff != "" {
		t.Errorf("-asked for +allowed:\n%s", diff)
	}
}
