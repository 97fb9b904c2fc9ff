package manifest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"signpost/discovery"
	"signpost/discovery/convert"
)

// publish computes what the changes touch and tells the store, in one
// revision. Its error is that of saving the allocations: services whose
// addresses are not durable are left as they were, and the next call tries
// again; all else is published.
func (e *engine) publish(w discovery.Writer, synced bool) error {
	err := e.allocate()
	e.world.touchSpread()
	e.probe()
	up := e.compute()
	w.Update(func(tx *discovery.Tx) {
		up.apply(tx)
		if synced {
			tx.MarkSynced()
		}
	})
	e.world.done()
	e.reported()
	return err
}

// allocate gives the services whose definition changed what they ask for, and
// makes it durable.
func (e *engine) allocate() error {
	if !e.forgot && e.clear() {
		e.registry.forget()
		e.forgot = true
	}
	specs := make(map[discovery.Key]*corev1.Service, len(e.world.respecced))
	for k := range e.world.respecced {
		specs[k] = nil
		if s := e.world.services[k]; s != nil {
			specs[k] = s.spec
		}
	}
	for k, o := range e.registry.allocate(specs, func(k discovery.Key) *corev1.Service { return e.world.services[k].spec }) {
		o.changed = o.changed || e.pending[k].changed
		e.pending[k] = o
	}
	err := e.save()
	for k, o := range e.pending {
		if err != nil && o.changed && o.live != nil {
			continue
		}
		delete(e.pending, k)
		e.world.setLive(k, o.live)
		e.world.dirty[k] = true
	}
	return err
}

func (e *engine) save() error {
	if e.readOnly {
		return nil
	}
	err := e.registry.numbers.Save()
	var found []finding
	if err != nil {
		reason := fmt.Sprintf("%v: services with new addresses are not served until it works", err)
		found = []finding{{Problem: Problem{File: e.cfg.StateFile, Reason: reason}}}
	}
	e.ledger.set("state", found)
	return err
}

// update is what a store is told.
type update struct {
	services   []serviceUpdate
	pods       map[discovery.Key]*discovery.Pod
	nodes      map[string]*discovery.Node
	namespaces map[string]bool
}

type serviceUpdate struct {
	key      discovery.Key
	service  *service
	model    *discovery.Service // nil: it goes
	made     []*discoveryv1.EndpointSlice
	warnings []string
}

// compute makes the model of everything that was touched.
func (e *engine) compute() *update {
	w := e.world
	up := &update{
		pods:  make(map[discovery.Key]*discovery.Pod, len(w.podsDirty)),
		nodes: make(map[string]*discovery.Node, len(w.nodesDirty)), namespaces: w.namespaces,
	}
	for k := range w.dirty {
		up.services = append(up.services, serviceUpdate{key: k, service: w.services[k]})
	}
	parallel(len(up.services), func(i int) { e.computeService(&up.services[i]) })
	for i := range up.services {
		e.keep(&up.services[i])
	}
	for k := range w.podsDirty {
		up.pods[k] = nil
		if pod := w.pods.get(k); pod != nil {
			up.pods[k] = convert.Pod(e.probed(pod))
		}
	}
	for name := range w.nodesDirty {
		up.nodes[name] = nil
		if node := w.nodes[name]; node != nil {
			up.nodes[name] = convert.Node(node)
		}
	}
	return up
}

// computeService makes a service's model. It runs beside others of its kind
// and only reads.
func (e *engine) computeService(u *serviceUpdate) {
	if u.service == nil || u.service.live == nil {
		return
	}
	made, all := e.world.slicesOf(u.service, e.probed)
	u.made = made
	u.model, u.warnings = convert.Service(u.service.live, all)
}

// keep notes what the next time needs, and reports what the conversion found.
// A service with one slice a family gets the same again without knowing it.
func (e *engine) keep(u *serviceUpdate) {
	if u.service != nil {
		u.service.made = nil
		if len(u.made) > len(u.service.spec.Spec.IPFamilies) {
			u.service.made = u.made
		}
	}
	var found []finding
	def, known := e.defs.inForce[serviceID(u.key)]
	for _, warning := range u.warnings {
		if !known {
			break
		}
		field, reason := "", warning
		if head, rest, cut := strings.Cut(warning, ": "); cut && !strings.ContainsAny(head, ` "`) {
			field, reason = head, rest
		}
		found = append(found, def.doc.finding(def.object.source.fault(field, reason), def.object, true))
	}
	e.ledger.set(conversionOwner{u.key}, found)
}

// conversionOwner is the ledger's owner of what a conversion warns of.
type conversionOwner struct{ key discovery.Key }

// probed returns a pod with the readiness that its probe found, if it has one
// that is run.
func (e *engine) probed(pod *corev1.Pod) *corev1.Pod {
	if e.prober == nil {
		return pod
	}
	ready, known := e.prober.Ready(discovery.Key{Namespace: pod.Namespace, Name: pod.Name})
	if !known {
		return pod
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	with := *pod
	with.Status.Conditions = append(slices.DeleteFunc(slices.Clone(pod.Status.Conditions),
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }),
		corev1.PodCondition{Type: corev1.PodReady, Status: status})
	return &with
}

// probe tells the prober which pods there are, if they changed.
func (e *engine) probe() {
	if e.prober == nil || len(e.world.podsDirty) == 0 {
		return
	}
	pods := make([]*corev1.Pod, 0, len(e.world.pods.all()))
	for _, pod := range e.world.pods.all() {
		pods = append(pods, pod)
	}
	e.prober.Set(pods)
}

// probeChanged marks what a probe's new result touches.
func (e *engine) probeChanged(pods []discovery.Key) {
	for _, k := range pods {
		if pod := e.world.pods.get(k); pod != nil {
			e.world.touchServicesOf(pod)
			e.world.podsDirty[k] = true
		}
	}
}

func (up *update) apply(tx *discovery.Tx) {
	for i := range up.services {
		if u := &up.services[i]; u.model != nil {
			tx.PutService(u.model)
		} else {
			tx.DeleteService(u.key)
		}
	}
	for k, pod := range up.pods {
		if pod != nil {
			tx.PutPod(pod)
		} else {
			tx.DeletePod(k)
		}
	}
	for name, node := range up.nodes {
		if node != nil {
			tx.PutNode(node)
		} else {
			tx.DeleteNode(name)
		}
	}
	for name, exists := range up.namespaces {
		if exists {
			tx.PutNamespace(name)
		} else {
			tx.DeleteNamespace(name)
		}
	}
}
