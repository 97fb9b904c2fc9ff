package manifest

import (
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"signpost/discovery"
	"signpost/discovery/endpoints"
)

// label is one pair of a namespace: what a selector and a pod can share.
type label struct{ namespace, name, value string }

// podIndex finds the pods that a selector matches without looking at all.
type podIndex struct {
	byKey       map[discovery.Key]*corev1.Pod
	byLabel     map[label]map[discovery.Key]*corev1.Pod
	byNamespace map[string]map[discovery.Key]*corev1.Pod
	byNode      map[string]map[discovery.Key]*corev1.Pod
}

func newPodIndex() *podIndex {
	return &podIndex{
		byKey:       map[discovery.Key]*corev1.Pod{},
		byLabel:     map[label]map[discovery.Key]*corev1.Pod{},
		byNamespace: map[string]map[discovery.Key]*corev1.Pod{},
		byNode:      map[string]map[discovery.Key]*corev1.Pod{},
	}
}

func (x *podIndex) get(k discovery.Key) *corev1.Pod { return x.byKey[k] }

func (x *podIndex) all() map[discovery.Key]*corev1.Pod { return x.byKey }

// set stores a pod; nil removes it.
func (x *podIndex) set(k discovery.Key, pod *corev1.Pod) {
	if old := x.byKey[k]; old != nil {
		delete(x.byKey, k)
		leave(x.byNamespace, k.Namespace, k)
		leave(x.byNode, old.Spec.NodeName, k)
		for name, value := range old.Labels {
			leave(x.byLabel, label{k.Namespace, name, value}, k)
		}
	}
	if pod == nil {
		return
	}
	x.byKey[k] = pod
	enter(x.byNamespace, k.Namespace, k, pod)
	enter(x.byNode, pod.Spec.NodeName, k, pod)
	for name, value := range pod.Labels {
		enter(x.byLabel, label{k.Namespace, name, value}, k, pod)
	}
}

// matching returns the pods that a service selects. It starts from the pair of
// the selector that the fewest pods have.
func (x *podIndex) matching(svc *corev1.Service) []*corev1.Pod {
	candidates := x.byNamespace[svc.Namespace]
	for name, value := range svc.Spec.Selector {
		if having := x.byLabel[label{svc.Namespace, name, value}]; len(having) < len(candidates) {
			candidates = having
		}
	}
	var pods []*corev1.Pod
	for _, pod := range candidates {
		if endpoints.Matches(svc, pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// selectorIndex finds the services that may select a pod. A service stands
// under one pair of its selector, the one that the fewest others stand under;
// one that selects everything under its namespace alone.
type selectorIndex struct {
	under    map[label]map[discovery.Key]bool
	standsAt map[discovery.Key]label
}

func newSelectorIndex() *selectorIndex {
	return &selectorIndex{under: map[label]map[discovery.Key]bool{}, standsAt: map[discovery.Key]label{}}
}

func (x *selectorIndex) set(k discovery.Key, selector map[string]string, exists bool) {
	if at, stood := x.standsAt[k]; stood {
		leave(x.under, at, k)
		delete(x.standsAt, k)
	}
	if !exists || selector == nil {
		return
	}
	at, first := label{namespace: k.Namespace}, true
	for name, value := range selector {
		pair := label{k.Namespace, name, value}
		if first || len(x.under[pair]) < len(x.under[at]) {
			at, first = pair, false
		}
	}
	x.standsAt[k] = at
	enter(x.under, at, k, true)
}

// candidates yields the services that share a pair with the pod.
func (x *selectorIndex) candidates(pod *corev1.Pod) iter.Seq[discovery.Key] {
	return func(yield func(discovery.Key) bool) {
		yieldAll := func(at label) bool {
			for k := range maps.Keys(x.under[at]) {
				if !yield(k) {
					return false
				}
			}
			return true
		}
		for name, value := range pod.Labels {
			if !yieldAll(label{pod.Namespace, name, value}) {
				return
			}
		}
		yieldAll(label{namespace: pod.Namespace})
	}
}

// enter and leave keep sets that exist only as long as something is in them.
func enter[G comparable, V any](sets map[G]map[discovery.Key]V, g G, k discovery.Key, v V) {
	if sets[g] == nil {
		sets[g] = map[discovery.Key]V{}
	}
	sets[g][k] = v
}

func leave[G comparable, V any](sets map[G]map[discovery.Key]V, g G, k discovery.Key) {
	if delete(sets[g], k); len(sets[g]) == 0 {
		delete(sets, g)
	}
}
