package endpoints

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newNode(name, zone, cpu string, changes ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(node)
	}
	return node
}

func byName(nodes ...*corev1.Node) map[string]*corev1.Node {
	out := map[string]*corev1.Node{}
	for _, n := range nodes {
		out[n.Name] = n
	}
	return out
}

func distribution(value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.TrafficDistribution = &value }
}

func topologyMode(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations = map[string]string{key: value} }
}

func TestTrafficDistribution(t *testing.T) {
	t.Parallel()
	nodes := byName(newNode("a1", "za", "1"), newNode("b1", "zb", "1"), newNode("x", "", "1"))
	pods := []*corev1.Pod{
		newPod("a", "10.0.0.1", onNode("a1")), newPod("b", "10.0.0.2", onNode("b1")),
		newPod("n", "10.0.0.3", onNode("b1"), notReady), newPod("x", "10.0.0.4", onNode("x")), newPod("y", "10.0.0.5", onNode("")),
	}
	cases := []struct{ name, value, want string }{
		{"unset", "", "10.0.0.1 10.0.0.2 10.0.0.3-ready 10.0.0.4 10.0.0.5"},
		{"PreferClose", "PreferClose", "10.0.0.1~za 10.0.0.2~zb 10.0.0.3-ready 10.0.0.4 10.0.0.5"},
		{"PreferSameZone", "PreferSameZone", "10.0.0.1~za 10.0.0.2~zb 10.0.0.3-ready 10.0.0.4 10.0.0.5"},
		{"PreferSameNode", "PreferSameNode", "10.0.0.1~za@a1 10.0.0.2~zb@b1 10.0.0.3-ready 10.0.0.4@x 10.0.0.5"},
		{"unknown", "PreferMoon", "10.0.0.1 10.0.0.2 10.0.0.3-ready 10.0.0.4 10.0.0.5"},
	}
	for _, c := range cases {
		t.Run("E-15 "+c.name, func(t *testing.T) {
			t.Parallel()
			hinted := Options{}.Slices(newService(distribution("PreferSameNode")), pods, nodes, nil)
			got := Options{}.Slices(newService(distribution(c.value)), pods, nodes, hinted) // also takes hints away
			if text := describe(got); text != "IPv4 [http=8080/TCP]: "+c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// spread makes pods 10.0.0.N on the nodes given, one letter each: a, b, c.
func spread(letters string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i, l := range letters {
		pods = append(pods, newPod(fmt.Sprint("p", i), fmt.Sprintf("10.0.0.%d", i+1), onNode(string(l))))
	}
	return pods
}

func TestTopologyModeAuto(t *testing.T) {
	t.Parallel()
	auto := topologyMode(corev1.AnnotationTopologyMode, "Auto")
	even := byName(newNode("a", "za", "2"), newNode("b", "zb", "2"), newNode("c", "zc", "2"))
	notReadyNode := func(n *corev1.Node) { n.Status.Conditions = nil }
	control := func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }
	cases := []struct {
		name  string
		svc   *corev1.Service
		nodes map[string]*corev1.Node
		pods  string
		want  map[string]string // address: zone of its hint
	}{
		{"own zones", newService(auto), even, "abc", map[string]string{"10.0.0.1": "za", "10.0.0.2": "zb", "10.0.0.3": "zc"}},
		{
			"the old annotation", newService(topologyMode(corev1.DeprecatedAnnotationTopologyAwareHints, "auto")), even, "abc",
			map[string]string{"10.0.0.1": "za", "10.0.0.2": "zb", "10.0.0.3": "zc"},
		},
		{
			"before trafficDistribution: no hints if auto finds none", newService(auto, distribution("PreferClose")), even, "ab", nil,
		},
		{"fewer endpoints than zones", newService(auto), even, "ab", nil},
		{"one zone only", newService(auto), byName(newNode("a", "za", "2")), "aaa", nil},
		{"one zone with ready nodes", newService(auto), byName(newNode("a", "za", "2"), newNode("b", "zb", "2", notReadyNode)), "aaa", nil},
		{"a node without CPUs", newService(auto), byName(newNode("a", "za", "2"), newNode("b", "zb", "0")), "ab", nil},
		{"a node without a zone", newService(auto), byName(newNode("a", "za", "2"), newNode("b", "zb", "2"), newNode("c", "", "2")), "ab", nil},
		{"an endpoint without a zone", newService(auto), even, "abcx", nil},
		{"overload: one for a zone with 7 of 8 CPUs", newService(auto), byName(newNode("a", "za", "7"), newNode("b", "zb", "1")), "ab", nil},
		{"no nodes", newService(auto), nil, "ab", nil},
		{
			"lent to a zone that has none", newService(auto), byName(newNode("a", "za", "2"), newNode("b", "zb", "2")), "aaaa",
			map[string]string{"10.0.0.1": "za", "10.0.0.2": "za", "10.0.0.3": "zb", "10.0.0.4": "zb"},
		},
		{
			"as CPUs are divided", newService(auto), byName(newNode("a", "za", "3"), newNode("b", "zb", "1")), "bbbb",
			map[string]string{"10.0.0.1": "zb", "10.0.0.2": "za", "10.0.0.3": "za", "10.0.0.4": "za"},
		},
		{
			"control plane nodes don't count; their endpoints go to who lacks", newService(auto),
			byName(newNode("a", "za", "2"), newNode("b", "zb", "2"), newNode("c", "zc", "9", control)), "accc",
			map[string]string{"10.0.0.1": "za", "10.0.0.2": "zb", "10.0.0.3": "za", "10.0.0.4": "zb"},
		},
	}
	for _, c := range cases {
		t.Run("E-15 "+c.name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for _, s := range (Options{}).Slices(c.svc, spread(c.pods), c.nodes, nil) {
				for _, ep := range s.Endpoints {
					if ep.Hints != nil {
						got[ep.Addresses[0]] = ep.Hints.ForZones[0].Name
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) && len(got)+len(c.want) > 0 {
				t.Errorf("hints %v, want %v", got, c.want)
			}
		})
	}
}

// TestAutoNeverOverloads tries many shapes: either nobody is hinted, or every
// ready endpoint is and no zone gets less than its share allows.
func TestAutoNeverOverloads(t *testing.T) {
	t.Parallel()
	svc := newService(topologyMode(corev1.AnnotationTopologyMode, "Auto"))
	for shape := range 512 {
		cpus := []int{1 + shape%4, 1 + shape/4%4, 1 + shape/16%2*5}
		nodes := byName(newNode("a", "za", fmt.Sprint(cpus[0])), newNode("b", "zb", fmt.Sprint(cpus[1])), newNode("c", "zc", fmt.Sprint(cpus[2])))
		letters := strings.Repeat("a", shape/32%8) + strings.Repeat("b", shape%5) + strings.Repeat("c", shape/7%4)
		perZone, ready := map[string]int{}, 0
		for _, s := range (Options{}).Slices(svc, spread(letters), nodes, nil) {
			for _, ep := range s.Endpoints {
				ready++
				if ep.Hints != nil {
					perZone[ep.Hints.ForZones[0].Name]++
				}
			}
		}
		if len(perZone) == 0 {
			continue
		}
		total := float64(cpus[0] + cpus[1] + cpus[2])
		for i, zone := range []string{"za", "zb", "zc"} {
			if share := float64(cpus[i]) / total * float64(ready); share > 1.2*float64(perZone[zone])+1e-9 {
				t.Errorf("CPUs %v, pods %s: zone %s has %d for a share of %.2f", cpus, letters, zone, perZone[zone], share)
			}
		}
		if sum := perZone["za"] + perZone["zb"] + perZone["zc"]; sum != ready {
			t.Errorf("CPUs %v, pods %s: %d of %d are hinted", cpus, letters, sum, ready)
		}
	}
}
