package vip

import (
	"iter"

	"signpost/discovery"
)

// PlanChanges yields every service whose plan differs between two states, in no
// order; a missing one is nil. Before may be nil: the empty state. The cost
// follows the change.
func PlanChanges(before, after *State) iter.Seq2[*ServicePlan, *ServicePlan] {
	return func(yield func(before, after *ServicePlan) bool) {
		more := true
		discovery.Diff(before.planned(), after.planned(), func(_ discovery.Key, old, now *ServicePlan) {
			if more {
				more = yield(old, now)
			}
		})
	}
}

func (s *State) planned() discovery.Map[*ServicePlan] {
	if s == nil {
		return discovery.Map[*ServicePlan]{}
	}
	return s.services
}
