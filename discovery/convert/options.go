package convert

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Options is what defaulting and validation need to know of the cluster. The
// zero value is an IPv4 cluster that behaves as an API server does.
type Options struct {
	// Families are the IP families of the service ranges, primary first (one
	// or two). Empty means IPv4.
	Families []corev1.IPFamily
	// AllowLoopback accepts loopback addresses for endpoints, which an API
	// server refuses, so that a whole cluster can live on 127.0.0.0/8.
	AllowLoopback bool
}

func (o Options) families() []corev1.IPFamily {
	if len(o.Families) == 0 {
		return []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return o.Families
}

func (o Options) configured(f corev1.IPFamily) bool { return slices.Contains(o.families(), f) }

// Default fills in, in place, what an API server would. A kind that this
// package does not know stays as it is. Calling it twice is calling it once.
func (o Options) Default(obj runtime.Object) {
	switch obj := obj.(type) {
	case *corev1.Service:
		defaultNamespace(&obj.ObjectMeta)
		o.defaultService(obj)
	case *corev1.Endpoints: //nolint:staticcheck // deprecated, but people write them (E-21)
		defaultNamespace(&obj.ObjectMeta)
		defaultEndpoints(obj)
	case *discoveryv1.EndpointSlice:
		defaultNamespace(&obj.ObjectMeta)
		defaultSlice(obj)
	case *corev1.Pod:
		defaultNamespace(&obj.ObjectMeta)
		defaultPod(obj)
	case *corev1.Node:
		defaultNode(obj)
	}
}

// Validate checks one defaulted object as an API server's create would, or,
// with the object's previous version, as its update would. It returns all
// problems, not only the first; none for a kind that this package does not
// know. Range and ownership of cluster IPs and node ports are not its
// business.
func (o Options) Validate(obj, old runtime.Object) field.ErrorList {
	errs := o.validate(obj, old)
	sortRuns(errs)
	return errs
}

// sortRuns puts the problems of one field in a fixed order: those of labels
// and other maps come in the map's, and whoever reports a refusal once must
// see that it is still the same.
func sortRuns(errs field.ErrorList) {
	for start := 0; start < len(errs); {
		end := start + 1
		for end < len(errs) && errs[end].Field == errs[start].Field {
			end++
		}
		slices.SortStableFunc(errs[start:end], func(a, b *field.Error) int {
			return strings.Compare(a.Error(), b.Error())
		})
		start = end
	}
}

func (o Options) validate(obj, old runtime.Object) field.ErrorList {
	switch obj := obj.(type) {
	case *corev1.Service:
		before, _ := old.(*corev1.Service)
		return o.validateService(obj, before)
	case *corev1.Endpoints: //nolint:staticcheck // deprecated, but people write them (E-21)
		return o.validateEndpoints(obj)
	case *discoveryv1.EndpointSlice:
		before, _ := old.(*discoveryv1.EndpointSlice)
		return o.validateSlice(obj, before)
	case *corev1.Pod:
		return validatePod(obj)
	case *corev1.Node:
		return validateNode(obj)
	case *corev1.Namespace:
		return validateNamespace(obj)
	default:
		return nil
	}
}

func defaultNamespace(m *metav1.ObjectMeta) {
	if m.Namespace == "" {
		m.Namespace = metav1.NamespaceDefault
	}
}
