package manifest

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"signpost/discovery"
)

// Source keeps a store current with a folder. It implements [discovery.Source].
type Source struct {
	cfg Config

	mu     sync.RWMutex // guards engine
	engine *engine
}

var _ discovery.Source = (*Source)(nil)

// New checks the configuration, the folder and the state file. A state file
// that can't be understood is an [allocator.CorruptError].
func New(cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := checkDir(cfg.Dir); err != nil {
		return nil, err
	}
	e, err := newEngine(cfg)
	if err != nil {
		return nil, err
	}
	return &Source{cfg: cfg, engine: e}, nil
}

// Run implements [discovery.Source]: the first update brings the whole folder
// and marks the store synced. It returns nil when the context ends. The state
// file is read again, since New may have been called long before.
func (s *Source) Run(ctx context.Context, to discovery.Writer) error {
	e, err := newEngine(s.cfg)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.engine = e
	s.mu.Unlock()
	return newLoop(s, to).run(ctx)
}

// Problems returns what is wrong with the folder now, by file and line.
func (s *Source) Problems() []Problem {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.engine.ledger.problems()
}

// Stats counts what the source knows.
type Stats struct {
	Files, Objects, Services, Pods int
	Problems, Warnings             int
}

// Stats returns the present figures.
func (s *Source) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.engine
	st := Stats{
		Files: len(e.files), Objects: len(e.defs.inForce),
		Services: len(e.world.services), Pods: len(e.world.pods.byKey),
	}
	for _, list := range e.ledger.byOwner {
		for _, f := range list {
			if f.Warning {
				st.Warnings++
			} else {
				st.Problems++
			}
		}
	}
	return st
}

// Service returns the Service as it is served: defaulted, with everything that
// was allocated to it; nil if there is none. No object that a Source returns
// may be changed.
func (s *Source) Service(k discovery.Key) *corev1.Service {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if svc := s.engine.world.services[k]; svc != nil {
		return svc.live
	}
	return nil
}

// Pod returns a pod, with the readiness that its probe found; nil if there is none.
func (s *Source) Pod(k discovery.Key) *corev1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if pod := s.engine.world.pods.get(k); pod != nil {
		return s.engine.probed(pod)
	}
	return nil
}

// Pods returns the pods of a namespace by name, as Pod does.
func (s *Source) Pods(namespace string) []*corev1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	byKey := s.engine.world.pods.byNamespace[namespace]
	pods := make([]*corev1.Pod, 0, len(byKey))
	for _, k := range slices.SortedFunc(maps.Keys(byKey), discovery.Key.Compare) {
		pods = append(pods, s.engine.probed(byKey[k]))
	}
	return pods
}

// Node returns a node; nil if there is none.
func (s *Source) Node(name string) *corev1.Node {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.engine.world.nodes[name]
}

// Slices returns the endpoint slices of a service: those made for it and those
// given by hand.
func (s *Source) Slices(k discovery.Key) []*discoveryv1.EndpointSlice {
	s.mu.RLock()
	defer s.mu.RUnlock()
	svc := s.engine.world.services[k]
	if svc == nil || svc.live == nil {
		return nil
	}
	_, all := s.engine.world.slicesOf(svc, s.engine.probed)
	return all
}
