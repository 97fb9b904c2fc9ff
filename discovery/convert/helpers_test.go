package convert

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

var dualStack = Options{Families: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}}

// newObject returns an empty object of a kind.
func newObject(kind string) runtime.Object {
	switch kind {
	case "Service":
		return &corev1.Service{}
	case "Endpoints":
		return &corev1.Endpoints{} //nolint:staticcheck // E-21
	case "EndpointSlice":
		return &discoveryv1.EndpointSlice{}
	case "Pod":
		return &corev1.Pod{}
	case "Node":
		return &corev1.Node{}
	case "Namespace":
		return &corev1.Namespace{}
	default:
		return nil
	}
}

// decode reads one object of any kind that the package knows.
func decode(t testing.TB, text string) runtime.Object {
	t.Helper()
	var head metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		t.Fatalf("reading the kind of %s: %v", text, err)
	}
	obj := newObject(head.Kind)
	if obj == nil {
		t.Fatalf("unknown kind %q in %s", head.Kind, text)
	}
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return obj
}

// service makes a Service "shop/web" of a flow-style or block-style spec.
func service(t testing.TB, spec string) *corev1.Service {
	t.Helper()
	return named(t, "Service", "web", "spec", spec).(*corev1.Service)
}

// named makes an object of a kind in namespace shop, with one member.
func named(t testing.TB, kind, name, member, text string) runtime.Object {
	t.Helper()
	indented := strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
	return decode(t, "kind: "+kind+"\nmetadata: {name: "+name+", namespace: shop}\n"+member+":\n  "+indented+"\n")
}

func lines(errs field.ErrorList) []string {
	out := make([]string, len(errs))
	for i, e := range errs {
		out[i] = e.Error()
	}
	return out
}

// expect checks that there are exactly the problems that start so, in order.
func expect(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d problems, want %d:\n got: %s\nwant: %s", len(got), len(want),
			strings.Join(got, "\n      "), strings.Join(want, "\n      "))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %d:\n got: %s\nwant: %s…", i, got[i], want[i])
		}
	}
}

// merge decodes further fields into an object.
func merge(t testing.TB, obj runtime.Object, text string) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
}
