package vip

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"signpost/discovery"
)

// The annotations that choose an IPVS scheduler for one service: ours, and
// kube-router's name for it (I-14).
const (
	SchedulerAnnotation           = "signpost/scheduler"
	KubeRouterSchedulerAnnotation = "kube-router.io/service.scheduler"
)

// Bounds of spec.sessionAffinityConfig.clientIP.timeoutSeconds (P-16).
const (
	defaultAffinity = 3 * time.Hour
	maxAffinity     = 24 * time.Hour
)

type affinity = time.Duration

func (b *planning) clientAffinity() affinity {
	a := b.service.Affinity
	switch {
	case !a.ClientIP:
		return 0
	case a.Timeout == 0:
		return defaultAffinity
	case a.Timeout < time.Second || a.Timeout > maxAffinity:
		b.warn("spec.sessionAffinityConfig.clientIP.timeoutSeconds %q: must be between 1s and %s; using %s", a.Timeout, maxAffinity, defaultAffinity)
		return defaultAffinity
	default:
		return a.Timeout
	}
}

func (b *planning) schedulerName() string {
	for _, annotation := range []string{SchedulerAnnotation, KubeRouterSchedulerAnnotation} {
		name, ok := b.service.Annotations[annotation]
		switch {
		case !ok:
		case name != "" && len(name) <= 15 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "":
			return name
		default:
			b.warn("annotation %s %q: not the name of a scheduler", annotation, shorten(name))
		}
	}
	return b.options.Scheduler
}

// usablePorts leaves out the ports that no kernel can program (P-25, X10).
func (b *planning) usablePorts() []discovery.Port {
	type number struct {
		port     uint16
		protocol discovery.Protocol
	}
	seen, seenNode := map[number]bool{}, map[number]bool{}
	var list []discovery.Port
	for i, p := range b.service.Ports {
		switch key := (number{p.Port, p.Protocol}); {
		case p.Protocol > discovery.SCTP:
			b.warn("spec.ports[%d].protocol %q: must be TCP, UDP or SCTP", i, p.Protocol)
		case p.Port == 0:
			b.warn("spec.ports[%d].port 0: must be between 1 and 65535", i)
		case badName(p.Name, 63):
			b.warn("spec.ports[%d].name %q: not a port name", i, shorten(p.Name))
		case seen[key]:
			b.warn("spec.ports[%d] %d/%s: is there already", i, p.Port, p.Protocol)
		default:
			seen[key] = true
			if node := (number{p.NodePort, p.Protocol}); p.NodePort != 0 && seenNode[node] {
				b.warn("spec.ports[%d].nodePort %d/%s: is there already", i, p.NodePort, p.Protocol)
				p.NodePort = 0
			} else {
				seenNode[node] = true
			}
			list = append(list, p)
		}
	}
	return list
}

// warnEndpoints names endpoints that nothing can be sent to, and those that no
// address of the service leads to if it has no others (X23, P-09).
func (b *planning) warnEndpoints(clusterIPs []netip.Addr) {
	unusable, foreign, reachable := 0, 0, 0
	for _, e := range b.service.Endpoints {
		a := canonical(e.Addr)
		switch {
		case !usableAddr(a):
			unusable++
		case slices.ContainsFunc(clusterIPs, func(own netip.Addr) bool { return own.Is6() == a.Is6() }):
			reachable++
		default:
			foreign++
		}
	}
	if unusable > 0 {
		b.warn("endpoints: %d without a unicast address", unusable)
	}
	if reachable == 0 && foreign > 0 {
		b.warn("endpoints: none of the %d is of a family in which the service has a cluster address", foreign)
	}
}

// badKey says why the service's names can't stand in a rule or a log.
func badKey(k discovery.Key) string {
	switch {
	case k.Name == "" || badName(k.Name, 253):
		return "not a service name: " + shorten(k.Name)
	case badName(k.Namespace, 253):
		return "not a namespace: " + shorten(k.Namespace)
	default:
		return ""
	}
}

// badName reports whether a name holds anything but letters, digits and the
// signs that Kubernetes allows in names: it could be part of a rule's text.
func badName(name string, longest int) bool {
	return len(name) > longest || strings.ContainsFunc(name, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
	})
}

// shorten keeps a message about a name shorter than the name may be.
func shorten(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
