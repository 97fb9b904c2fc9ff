package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"signpost/discovery"
)

// TestRefusals reads Services as people get them wrong: each is refused by
// name, field, value and reason.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ spec, want string }{
		"octet":    {`{clusterIP: 10.96.300.1, ports: [{port: 80}]}`, `Service "shop/web": spec.clusterIPs[0]: Invalid value: "10.96.300.1": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`},
		"unnamed":  {`ports: [{port: 80}, {name: tls, port: 443}]`, `Service "shop/web": spec.ports[0].name: Required value: must be set when there are several ports`},
		"affinity": {`{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 90000}}, ports: [{port: 80}]}`, `Service "shop/web": spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: must be greater than 0 and at most 86400 (one day)`},
	} {
		svc := service(t, c.spec)
		Options{}.Default(svc)
		r := Refuse(svc, Options{}.Validate(svc, nil))
		if r == nil {
			t.Errorf("%s: not refused", name)
		} else if r.Error() != c.want {
			t.Errorf("%s:\n got: %s\nwant: %s", name, r.Error(), c.want)
		}
	}
}

func TestRefusalOfSeveralProblems(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	path := field.NewPath("spec")
	r := Refuse(node, field.ErrorList{Invalid(path.Child("a"), 1, "too small"), field.Required(path.Child("b"), "")})
	if want := `Node "node-1": spec.a: Invalid value: 1: too small; spec.b: Required value`; r.Error() != want {
		t.Errorf("got %s, want %s", r.Error(), want)
	}
	want := []string{`Node "node-1": spec.a: Invalid value: 1: too small`, `Node "node-1": spec.b: Required value`}
	if diff := cmp.Diff(want, r.Lines()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if Refuse(node, nil) != nil {
		t.Error("refused without a problem")
	}
}

func TestKindsAndKeys(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Service", "Endpoints", "EndpointSlice", "Pod", "Node", "Namespace"} {
		if got := KindOf(newObject(kind)); got != kind {
			t.Errorf("kind %q, want %q", got, kind)
		}
	}
	other := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	if got := KindOf(other); got != "ConfigMap" {
		t.Errorf("kind %q", got)
	}
	if got, want := KeyOf(other), (discovery.Key{Namespace: "a", Name: "b"}); got != want {
		t.Errorf("key %v, want %v", got, want)
	}
	if got := KeyOf(&metav1.Status{}); got != (discovery.Key{}) {
		t.Errorf("key of an object without a name: %v", got)
	}
}
