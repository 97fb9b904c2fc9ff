package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"signpost/discovery"
)

// item is one object of the API server as the source keeps it: in the model's
// form, with what is needed to tell its versions apart. The API object itself
// is dropped at once, which is what keeps the memory small. It is immutable.
//
// It is a [runtime.Object], so that the reflector can handle it like one.
type item struct {
	key     discovery.Key
	uid     types.UID
	version string        // resource version: equal means unchanged
	owner   discovery.Key // of a slice: its service; zero: none
	value   any           // *discovery.Service, Slice, Pod, Node, a namespace's labels, or ranges
	ended   bool          // a bookmark that ends the initial events
}

var (
	_ runtime.Object            = (*item)(nil)
	_ metav1.ObjectMetaAccessor = (*item)(nil)
)

// GetObjectKind implements [runtime.Object]; the kind is known from elsewhere.
func (*item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements [runtime.Object]; nobody changes an item.
func (i *item) DeepCopyObject() runtime.Object { return i }

// GetObjectMeta implements [metav1.ObjectMetaAccessor].
func (i *item) GetObjectMeta() metav1.Object {
	m := &metav1.ObjectMeta{Namespace: i.key.Namespace, Name: i.key.Name, UID: i.uid, ResourceVersion: i.version}
	if i.ended {
		m.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return m
}

// itemList is what a list request returns.
type itemList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*item
}

// DeepCopyObject implements [runtime.Object]; nobody changes a list.
func (l *itemList) DeepCopyObject() runtime.Object { return l }

// same reports whether a fetched object is the version that the item holds.
func (i *item) same(m metav1.Object) bool {
	return i != nil && i.version != "" && i.version == m.GetResourceVersion() && i.uid == m.GetUID()
}
