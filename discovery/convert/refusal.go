package convert

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"signpost/discovery"
)

// Refusal says why one object was not accepted: what an API server would
// answer with status 422.
type Refusal struct {
	Kind string        // "Service"
	Key  discovery.Key // the namespace is empty for a Node or a Namespace
	Errs field.ErrorList
}

// Refuse returns the refusal of an object for the problems found, or nil if
// there are none.
func Refuse(obj runtime.Object, errs field.ErrorList) *Refusal {
	if len(errs) == 0 {
		return nil
	}
	return &Refusal{Kind: KindOf(obj), Key: KeyOf(obj), Errs: errs}
}

// Error returns the problems in one line, as in
//
//	Service "default/bad-range": spec.clusterIPs[0]: Invalid value: "192.0.2.7": not in the range
//
// with several problems joined by "; ".
func (r *Refusal) Error() string {
	problems := make([]string, len(r.Errs))
	for i, e := range r.Errs {
		problems[i] = e.Error()
	}
	return r.subject() + strings.Join(problems, "; ")
}

// Lines returns one line for each problem; each names the object.
func (r *Refusal) Lines() []string {
	lines := make([]string, len(r.Errs))
	for i, e := range r.Errs {
		lines[i] = r.subject() + e.Error()
	}
	return lines
}

func (r *Refusal) subject() string {
	name := r.Key.Name
	if r.Key.Namespace != "" {
		name = r.Key.String()
	}
	return r.Kind + ` "` + name + `": `
}

// Invalid is the problem of a field whose value is not acceptable; for
// packages that find such values elsewhere, like an allocator's caller.
func Invalid(path *field.Path, value any, reason string) *field.Error {
	return field.Invalid(path, value, reason)
}

// KeyOf returns an object's namespace and name; empty for one without metadata.
func KeyOf(obj runtime.Object) discovery.Key {
	m, err := meta.Accessor(obj)
	if err != nil {
		return discovery.Key{}
	}
	return discovery.Key{Namespace: m.GetNamespace(), Name: m.GetName()}
}

// KindOf returns an object's kind as manifests spell it.
func KindOf(obj runtime.Object) string {
	switch obj := obj.(type) {
	case *corev1.Service:
		return "Service"
	case *corev1.Endpoints: //nolint:staticcheck // deprecated, but people write them (E-21)
		return "Endpoints"
	case *discoveryv1.EndpointSlice:
		return "EndpointSlice"
	case *corev1.Pod:
		return "Pod"
	case *corev1.Node:
		return "Node"
	case *corev1.Namespace:
		return "Namespace"
	default:
		return obj.GetObjectKind().GroupVersionKind().Kind
	}
}
