package endpoints

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// writer collects the bins of one service and turns them into slices.
type writer struct {
	namespace, service string
	owner              metav1.OwnerReference
	labels             map[string]string
	annotations        map[string]string // without the trigger time
	max                int
	placeholder        bool // an empty slice stands for a family without endpoints
	triggers           map[corev1.ObjectReference]time.Time

	own     []*discoveryv1.EndpointSlice // existing ones that are ours, by name
	taken   map[string]bool              // names of all existing ones
	bins    []*bin
	touched []*discoveryv1.Endpoint
}

// adopt sorts out which of the existing slices are this writer's to change:
// those of the service with one of the managers (E-10).
func (w *writer) adopt(existing []*discoveryv1.EndpointSlice, managers ...string) {
	w.taken = make(map[string]bool, len(existing))
	for _, slice := range existing {
		if slice == nil {
			continue
		}
		w.taken[slice.Name] = true
		ours := slice.Namespace == w.namespace && slice.Labels[discoveryv1.LabelServiceName] == w.service &&
			slices.Contains(managers, slice.Labels[discoveryv1.LabelManagedBy]) && slice.DeletionTimestamp == nil
		if ours {
			w.own = append(w.own, slice)
		}
	}
	slices.SortStableFunc(w.own, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
}

// write packs the groups of one family.
func (w *writer) write(family discoveryv1.AddressType, groups []*group) {
	byPorts := map[string][]*discoveryv1.EndpointSlice{}
	for _, slice := range w.own {
		if slice.AddressType == family {
			key := portsKey(slice.Ports)
			byPorts[key] = append(byPorts[key], slice)
		}
	}
	var bins []*bin
	var spare []*discoveryv1.EndpointSlice
	for _, g := range groups {
		p, unused := pack(family, g, byPorts[g.key], w.max)
		delete(byPorts, g.key)
		bins, spare = append(bins, p.bins...), append(spare, unused...)
		w.touched = append(w.touched, p.touched...)
	}
	for _, key := range slices.Sorted(maps.Keys(byPorts)) { // the placeholder's key, "", comes first
		spare = append(spare, byPorts[key]...)
	}
	if len(bins) == 0 && w.placeholder {
		bins = []*bin{{family: family, ports: []discoveryv1.EndpointPort{}, changed: true}}
	}
	reuse(bins, spare)
	w.bins = append(w.bins, bins...)
}

// finish returns the slices by name; those that need no change are the
// existing ones.
func (w *writer) finish() []*discoveryv1.EndpointSlice {
	trigger := w.trigger()
	out := make([]*discoveryv1.EndpointSlice, 0, len(w.bins))
	for _, b := range w.bins {
		switch {
		case b.from == nil:
			out = append(out, w.create(b, trigger))
		case b.changed || !w.metaMatches(b.from):
			out = append(out, w.update(b, trigger))
		default:
			out = append(out, b.from)
		}
	}
	slices.SortFunc(out, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (w *writer) create(b *bin, trigger string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{AddressType: b.family}
	slice.Namespace, slice.Name = w.namespace, w.name(b)
	slice.GenerateName = w.service + "-"
	w.set(slice, b, trigger)
	return slice
}

func (w *writer) update(b *bin, trigger string) *discoveryv1.EndpointSlice {
	slice := b.from.DeepCopy()
	w.set(slice, b, trigger)
	return slice
}

func (w *writer) set(slice *discoveryv1.EndpointSlice, b *bin, trigger string) {
	slice.Labels, slice.Annotations = maps.Clone(w.labels), maps.Clone(w.annotations)
	if trigger != "" {
		if slice.Annotations == nil {
			slice.Annotations = map[string]string{}
		}
		slice.Annotations[corev1.EndpointsLastChangeTriggerTime] = trigger
	}
	slice.OwnerReferences = []metav1.OwnerReference{w.owner}
	slice.Endpoints = slices.Clone(b.endpoints)
	if slice.Endpoints == nil {
		slice.Endpoints = []discoveryv1.Endpoint{}
	}
	slice.Ports = b.ports
}

// metaMatches reports whether labels, annotations and owner are as wanted. The
// trigger time is written with a real change only (E-12), so it does not count.
func (w *writer) metaMatches(slice *discoveryv1.EndpointSlice) bool {
	annotations := maps.Clone(slice.Annotations)
	delete(annotations, corev1.EndpointsLastChangeTriggerTime)
	owner := metav1.GetControllerOfNoCopy(slice)
	return maps.Equal(slice.Labels, w.labels) && maps.Equal(annotations, w.annotations) &&
		owner != nil && owner.UID == w.owner.UID && owner.Kind == w.owner.Kind && owner.Name == w.owner.Name
}

// trigger is the earliest cause of the changes, or empty if it is not known.
func (w *writer) trigger() string {
	var earliest time.Time
	for _, ep := range w.touched {
		t := w.triggers[value(ep.TargetRef)]
		if !t.IsZero() && (earliest.IsZero() || t.Before(earliest)) {
			earliest = t
		}
	}
	if earliest.IsZero() {
		return ""
	}
	return earliest.UTC().Format(time.RFC3339Nano)
}

// name derives the name of a new slice from what is in it, so that the same
// objects give the same names again; a second of that kind gets the next name.
func (w *writer) name(b *bin) string {
	for attempt := 0; ; attempt++ {
		h := fnv.New64a()
		fmt.Fprint(h, w.namespace, "/", w.service, "/", b.family, "/", portsKey(b.ports), "/", attempt) //nolint:errcheck // a hash takes everything
		name := w.service + "-" + suffix(h.Sum64())
		if !w.taken[name] {
			w.taken[name] = true
			return name
		}
	}
}

// suffix spells a hash in five characters out of which no words are made.
func suffix(hash uint64) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	var out [5]byte
	for i := range out {
		out[i] = alphabet[hash%uint64(len(alphabet))]
		hash /= uint64(len(alphabet))
	}
	return string(out[:])
}

func serviceOwner(svc *corev1.Service) metav1.OwnerReference {
	return *metav1.NewControllerRef(svc, schema.GroupVersionKind{Version: "v1", Kind: "Service"})
}

// sliceLabels are the service's labels and those that say what a slice is (E-09).
func sliceLabels(svc *corev1.Service) map[string]string {
	out := ownLabels(svc.Labels, svc.Name, ManagedBy)
	delete(out, corev1.IsHeadlessService)
	if headless(svc) {
		out[corev1.IsHeadlessService] = ""
	}
	return out
}

func ownLabels(from map[string]string, service, manager string) map[string]string {
	out := maps.Clone(from)
	if out == nil {
		out = map[string]string{}
	}
	out[discoveryv1.LabelServiceName] = service
	out[discoveryv1.LabelManagedBy] = manager
	return out
}
