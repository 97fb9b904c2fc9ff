package kube

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"signpost/discovery"
	"signpost/discovery/convert"
)

// object is an API object as it arrives.
type object interface {
	runtime.Object
	metav1.Object
}

// resource is one kind of object that the source follows.
type resource struct {
	name   string // plural, as in the URL
	kind   string // of one object
	group  schema.GroupVersion
	fields string // field selector
	empty  func() object
	// optional is a kind that the source can do without: a server that doesn't
	// have it, or doesn't show it, is no failure.
	optional bool
	// convert makes the model's form and, for a slice, the key of its service.
	// It may change the object.
	convert func(object) (value any, owner discovery.Key)
}

func serviceResource() *resource {
	return &resource{
		name: "services", kind: "Service", group: corev1.SchemeGroupVersion,
		empty: func() object { return &corev1.Service{} },
		convert: func(o object) (any, discovery.Key) {
			s := o.(*corev1.Service)
			internService(s)
			made, _ := convert.Service(s, nil) // the API server has validated it
			return made, discovery.Key{}
		},
	}
}

func sliceResource() *resource {
	return &resource{
		name: "endpointslices", kind: "EndpointSlice", group: discoveryv1.SchemeGroupVersion,
		empty: func() object { return &discoveryv1.EndpointSlice{} },
		convert: func(o object) (any, discovery.Key) {
			s := o.(*discoveryv1.EndpointSlice)
			internSlice(s)
			service := s.Labels[discoveryv1.LabelServiceName]
			made, _ := convert.Slice(s)
			if made == nil || service == "" { // it is nobody's (dns-requirements H19, H21)
				return (*discovery.Slice)(nil), discovery.Key{}
			}
			return made, discovery.Key{Namespace: s.Namespace, Name: intern(service)}
		},
	}
}

func namespaceResource() *resource {
	return &resource{
		name: "namespaces", kind: "Namespace", group: corev1.SchemeGroupVersion,
		empty: func() object { return &corev1.Namespace{} },
		convert: func(o object) (any, discovery.Key) {
			return internMap(o.GetLabels()), discovery.Key{}
		},
	}
}

func nodeResource() *resource {
	return &resource{
		name: "nodes", kind: "Node", group: corev1.SchemeGroupVersion,
		empty: func() object { return &corev1.Node{} },
		convert: func(o object) (any, discovery.Key) {
			return convert.Node(o.(*corev1.Node)), discovery.Key{}
		},
	}
}

// podResource leaves out pods that are finished: they own no address any more
// (dns-requirements P7), and a cluster may keep thousands of them.
func podResource() *resource {
	return &resource{
		name: "pods", kind: "Pod", group: corev1.SchemeGroupVersion,
		fields: "status.phase!=Succeeded,status.phase!=Failed",
		empty:  func() object { return &corev1.Pod{} },
		convert: func(o object) (any, discovery.Key) {
			p := o.(*corev1.Pod)
			internPod(p)
			return convert.Pod(p), discovery.Key{}
		},
	}
}

// rangeResource are the ranges that cluster addresses come from
// (vip-requirements F-16). Servers before 1.33 have no such objects.
func rangeResource() *resource {
	return &resource{
		name: "servicecidrs", kind: "ServiceCIDR", group: networkingv1.SchemeGroupVersion, optional: true,
		empty: func() object { return &networkingv1.ServiceCIDR{} },
		convert: func(o object) (any, discovery.Key) {
			var list []netip.Prefix
			for _, text := range o.(*networkingv1.ServiceCIDR).Spec.CIDRs {
				if p, err := netip.ParsePrefix(text); err == nil { // the API server has validated it
					list = append(list, p)
				}
			}
			return list, discovery.Key{}
		},
	}
}

// item converts an object, unless the present item is the same version of it:
// then that one stays, and what was fetched is dropped at once. So a relist
// costs no second copy of what has not changed (dns-requirements L6).
func (r *resource) item(o object, present *item) *item {
	if present.same(o) {
		return present
	}
	key := discovery.Key{Namespace: intern(o.GetNamespace()), Name: o.GetName()}
	made := &item{key: key, uid: o.GetUID(), version: o.GetResourceVersion()}
	made.value, made.owner = r.convert(o)
	return made
}
