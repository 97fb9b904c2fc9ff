package manifest

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"signpost/discovery"
	"signpost/discovery/endpoints"
)

// world is the API objects in force, with the indexes that tell which services
// a change touches.
type world struct {
	services  map[discovery.Key]*service
	pods      *podIndex
	selectors *selectorIndex
	nodes     map[string]*corev1.Node
	endpoints map[discovery.Key]*corev1.Endpoints //nolint:staticcheck // people write them (E-21)
	// slices by the service that they belong to, then by their own name.
	slices     map[discovery.Key]map[string]*discoveryv1.EndpointSlice
	sliceOwner map[discovery.Key]discovery.Key

	// What the changes so far leave to be done.
	dirty      map[discovery.Key]bool // services to compute again
	respecced  map[discovery.Key]bool // of these, those whose own object changed
	podsDirty  map[discovery.Key]bool
	nodesDirty map[string]bool
	namespaces map[string]bool // true: there now; false: gone
}

// service is a Service and what became of it.
type service struct {
	spec *corev1.Service // as defined
	// live is the spec with its allocations; nil as long as it has none. After
	// a refused change it is that of the last good spec.
	live *corev1.Service
	// made are the slices of the last time, for those that need several: so
	// that endpoints stay where they are (E-09).
	made []*discoveryv1.EndpointSlice
}

func newWorld() *world {
	w := &world{
		services: map[discovery.Key]*service{}, pods: newPodIndex(), selectors: newSelectorIndex(),
		nodes:      map[string]*corev1.Node{},
		endpoints:  map[discovery.Key]*corev1.Endpoints{}, //nolint:staticcheck // see above
		slices:     map[discovery.Key]map[string]*discoveryv1.EndpointSlice{},
		sliceOwner: map[discovery.Key]discovery.Key{},
	}
	w.done()
	return w
}

// done forgets what was to be done.
func (w *world) done() {
	w.dirty, w.respecced = map[discovery.Key]bool{}, map[discovery.Key]bool{}
	w.podsDirty, w.nodesDirty, w.namespaces = map[discovery.Key]bool{}, map[string]bool{}, map[string]bool{}
}

// set puts an object in force; nil takes it out.
func (w *world) set(id objectID, now runtime.Object) {
	switch id.kind {
	case "Service":
		spec, _ := now.(*corev1.Service)
		w.setService(id.key, spec)
	case "Pod":
		pod, _ := now.(*corev1.Pod)
		w.setPod(id.key, pod)
	case "Endpoints":
		eps, _ := now.(*corev1.Endpoints) //nolint:staticcheck // see above
		put(w.endpoints, id.key, eps)
		w.dirty[id.key] = true
	case "EndpointSlice":
		slice, _ := now.(*discoveryv1.EndpointSlice)
		w.setSlice(id.key, slice)
	case "Node":
		node, _ := now.(*corev1.Node)
		w.setNode(id.key.Name, node)
	case "Namespace":
		w.namespaces[id.key.Name] = now != nil
	}
}

// put stores a value, or deletes it if it is nil.
func put[K comparable, V any](m map[K]*V, k K, v *V) {
	if v == nil {
		delete(m, k)
		return
	}
	m[k] = v
}

func (w *world) setService(k discovery.Key, spec *corev1.Service) {
	s := w.services[k]
	switch {
	case spec == nil:
		delete(w.services, k)
	case s == nil:
		w.services[k] = &service{spec: spec}
	default:
		s.spec = spec
	}
	w.dirty[k], w.respecced[k] = true, true
}

// setLive says with which spec a service is served from now on.
func (w *world) setLive(k discovery.Key, live *corev1.Service) {
	var selector map[string]string
	if live != nil {
		selector = live.Spec.Selector
	}
	w.selectors.set(k, selector, live != nil)
	if s := w.services[k]; s != nil {
		s.live = live
	}
}

func (w *world) setPod(k discovery.Key, pod *corev1.Pod) {
	before := w.pods.get(k)
	for _, p := range []*corev1.Pod{before, pod} {
		w.touchServicesOf(p)
	}
	w.pods.set(k, pod)
	w.podsDirty[k] = true
}

// touchServicesOf marks the services that select a pod.
func (w *world) touchServicesOf(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	for k := range w.selectors.candidates(pod) {
		if s := w.services[k]; s != nil && s.live != nil && endpoints.Matches(s.live, pod) {
			w.dirty[k] = true
		}
	}
}

func (w *world) setSlice(k discovery.Key, slice *discoveryv1.EndpointSlice) {
	for owner, named := range w.sliceOwners(k, slice) {
		if named != nil {
			if w.slices[owner] == nil {
				w.slices[owner] = map[string]*discoveryv1.EndpointSlice{}
			}
			w.slices[owner][k.Name] = named
		} else if delete(w.slices[owner], k.Name); len(w.slices[owner]) == 0 {
			delete(w.slices, owner)
		}
		w.dirty[owner] = true
	}
}

// sliceOwners returns the service that a slice belongs to, and, with nil, the
// one that it belonged to.
func (w *world) sliceOwners(k discovery.Key, now *discoveryv1.EndpointSlice) map[discovery.Key]*discoveryv1.EndpointSlice {
	owners := map[discovery.Key]*discoveryv1.EndpointSlice{}
	if was, ok := w.sliceOwner[k]; ok {
		owners[was] = nil
		delete(w.sliceOwner, k)
	}
	if now != nil {
		if name := now.Labels[discoveryv1.LabelServiceName]; name != "" {
			owner := discovery.Key{Namespace: k.Namespace, Name: name}
			owners[owner], w.sliceOwner[k] = now, owner
		}
	}
	return owners
}

// setNode touches the services with pods on the node, whose endpoints carry
// its zone.
func (w *world) setNode(name string, node *corev1.Node) {
	put(w.nodes, name, node)
	w.nodesDirty[name] = true
	for _, pod := range w.pods.byNode[name] {
		w.touchServicesOf(pod)
	}
}

// touchSpread touches, if any node changed, the services that are distributed
// by the sizes of all nodes (E-15).
func (w *world) touchSpread() {
	if len(w.nodesDirty) == 0 {
		return
	}
	for k, s := range w.services {
		if s.live != nil && s.live.Annotations[corev1.AnnotationTopologyMode] != "" {
			w.dirty[k] = true
		}
	}
}

// slicesOf computes the endpoint slices of a service: made from its pods or
// its Endpoints object, and those given by hand. Of the hand-given ones those
// that a controller once made count only where nothing can be made anew: they
// are a copy of a cluster's state that may be old. It only reads.
func (w *world) slicesOf(s *service, ready func(*corev1.Pod) *corev1.Pod) (made, all []*discoveryv1.EndpointSlice) {
	svc := s.live
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, nil
	}
	k := discovery.Key{Namespace: svc.Namespace, Name: svc.Name}
	given := w.given(k)
	sources := 0
	if svc.Spec.Selector != nil {
		pods := w.pods.matching(svc)
		for i, p := range pods {
			pods[i] = ready(p)
		}
		sources = len(pods)
		made = endpoints.Options{}.Slices(svc, pods, w.nodes, s.made)
	} else if eps := w.endpoints[k]; eps != nil {
		made = endpoints.Mirror(svc, eps, s.made)
		sources = len(made)
	}
	switch {
	case len(given) == 0:
		return made, made
	case sources == 0:
		return nil, given
	default:
		given = slices.DeleteFunc(given, fromController)
		return made, append(slices.Clip(made), given...)
	}
}

// given returns the slices of a service that stand in the folder, by name.
func (w *world) given(k discovery.Key) []*discoveryv1.EndpointSlice {
	byName := w.slices[k]
	if len(byName) == 0 {
		return nil
	}
	list := make([]*discoveryv1.EndpointSlice, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, byName[name])
	}
	return list
}

func fromController(s *discoveryv1.EndpointSlice) bool {
	by := s.Labels[discoveryv1.LabelManagedBy]
	return by == endpoints.ManagedBy || by == endpoints.MirrorManagedBy
}
