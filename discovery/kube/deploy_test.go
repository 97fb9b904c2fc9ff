package kube

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// Least privilege: the ClusterRole allows to list and watch what the source
// can ask for, no more and no less.
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
			if !slices.Equal(rule.Verbs, []string{"list", "watch"}) || len(rule.APIGroups) != 1 {
				t.Errorf("rule %+v", rule)
			}
			for _, r := range rule.Resources {
				allowed = append(allowed, rule.APIGroups[0]+"/"+r)
			}
		}
	}
	var wanted []string
	for _, table := range newWorld(&Config{Nodes: true, Pods: true}, nil).tables {
		wanted = append(wanted, table.resource.group.Group+"/"+table.resource.name)
	}
	slices.Sort(allowed)
	slices.Sort(wanted)
	if diff := cmp.Diff(wanted, allowed); diff != "" {
		t.Errorf("-asked for +allowed:\n%s", diff)
	}
}
