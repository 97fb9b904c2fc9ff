package vip

import (
	"slices"

	"signpost/discovery"
)

// Lines that carry one of these as "event" and the service's key as "service" can
// be shown as events of the service.
const (
	eventInPart = "ProgrammedInPart"
	eventTaken  = "FrontendTaken"
	eventFailed = "FailedToProgram"
)

// logPlan states what is new about services that can't have what they ask for:
// one line for each thing that changed.
func (c *Controller) logPlan(before, after *State) {
	if before == nil {
		before = &State{}
	}
	discovery.Diff(before.services, after.services, func(k discovery.Key, old, now *ServicePlan) {
		for _, text := range now.warnings() {
			if !slices.Contains(old.warnings(), text) {
				c.log.Warn("service is programmed in part", "service", k.String(), "reason", text, "event", eventInPart)
			}
		}
		c.logOwners(before, after, old, now)
	})
}

func (c *Controller) logOwners(before, after *State, old, now *ServicePlan) {
	for _, v := range old.servers() {
		was, is := before.Get(v.Frontend), after.Get(v.Frontend)
		if was == v && is != nil && is.Owner != v.Owner {
			c.log.Info("frontend has another owner", "frontend", v.Frontend.String(), "service", is.Owner.String(), "before", v.Owner.String())
		}
	}
	for _, v := range now.servers() {
		winner := after.Get(v.Frontend)
		_, asked := slices.BinarySearchFunc(old.servers(), v.Frontend, byFrontend)
		if winner != nil && winner.Owner != v.Owner && !asked {
			c.log.Warn("frontend is taken", "frontend", v.Frontend.String(), "service", v.Owner.String(), "owner", winner.Owner.String(), "event", eventTaken)
		}
	}
}

func (p *ServicePlan) warnings() []string {
	if p == nil {
		return nil
	}
	return p.Warnings
}

func (p *ServicePlan) servers() []*VirtualServer {
	if p == nil {
		return nil
	}
	return p.Servers
}

// logStatus states what became worse or better, once.
func (c *Controller) logStatus(before, after *Status) {
	backend := c.config.Backend.Name()
	switch {
	case after.LastError != nil && before.LastError == nil:
		c.log.Error("dataplane fails", "backend", backend, "error", after.LastError)
	case after.LastError == nil && before.LastError != nil:
		c.log.Info("dataplane works again", "backend", backend)
	case before.Applied == nil && after.Applied != nil:
		c.log.Info("dataplane is in place", "backend", backend, "frontends", after.Applied.Len())
	}
	worse := newIn(before.Failed, after.Failed)
	for _, f := range worse[:min(len(worse), maxLines)] {
		c.log.Error("frontend can't be programmed", "frontend", f.String(), "service", after.owner(f), "error", after.Failed[f], "event", eventFailed)
	}
	better := newIn(after.Failed, before.Failed)
	for _, f := range better[:min(len(better), maxLines)] {
		if after.Applied.Get(f) != nil {
			c.log.Info("frontend is programmed", "frontend", f.String(), "service", after.owner(f))
		}
	}
	if len(worse) > maxLines || len(better) > maxLines {
		c.log.Warn("more frontends are concerned than are named here", "failed", len(after.Failed), "before", len(before.Failed))
	}
}

// maxLines is how many frontends a round names in the log: a missing kernel
// feature can concern thousands. The status has them all.
const maxLines = 20

// newIn lists, in order, the frontends of after that before does not have.
func newIn(before, after map[Frontend]error) []Frontend {
	var list []Frontend
	for f := range after {
		if _, known := before[f]; !known {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, Frontend.Compare)
	return list
}

// owner names the service that a frontend belongs to.
func (s *Status) owner(f Frontend) string {
	if v := s.Desired.Get(f); v != nil {
		return v.Owner.String()
	}
	return ""
}
