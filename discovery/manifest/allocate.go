package manifest

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"signpost/discovery"
	"signpost/discovery/allocator"
)

// registry gives Services their addresses and ports and reports those that
// can't have what they ask for.
type registry struct {
	numbers *allocator.Allocator
	defs    *definitions
	ledger  *ledger
	// blocked services were refused something; they are tried again when
	// anything becomes free.
	blocked map[discovery.Key]bool
}

// allocationOwner is the ledger's owner of a service's allocation problems.
type allocationOwner struct{ key discovery.Key }

// outcome is what a service has after a round.
type outcome struct {
	live    *corev1.Service // nil: it is not served
	changed bool            // it owns other things than before
}

// allocate decides a batch of services; those of which spec is nil are gone.
// Granted services come with their new spec; refused ones only if what they
// had is lost.
func (r *registry) allocate(specs map[discovery.Key]*corev1.Service, blockedSpec func(discovery.Key) *corev1.Service) map[discovery.Key]outcome {
	outcomes := map[discovery.Key]outcome{}
	freed := false
	for k, spec := range specs {
		if spec != nil {
			continue
		}
		freed = r.numbers.Release(k.String()) || freed
		delete(r.blocked, k)
		r.ledger.set(allocationOwner{k}, nil)
		outcomes[k] = outcome{}
	}
	freed = r.decide(specs, outcomes) || freed
	for freed && len(r.blocked) > 0 {
		again := map[discovery.Key]*corev1.Service{}
		for k := range r.blocked {
			again[k] = blockedSpec(k)
		}
		freed = r.decide(again, outcomes)
	}
	return outcomes
}

// decide runs one batch, in the order of the folder, and reports whether anything that was owned may have
// become free.
func (r *registry) decide(specs map[discovery.Key]*corev1.Service, outcomes map[discovery.Key]outcome) (freed bool) {
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(specs)), func(k discovery.Key) bool { return specs[k] == nil })
	slices.SortFunc(keys, func(a, b discovery.Key) int {
		return compareDefinitions(r.defs.inForce[serviceID(a)], r.defs.inForce[serviceID(b)])
	})
	requests := make([]allocator.Request, len(keys))
	for i, k := range keys {
		requests[i] = request(k, specs[k])
	}
	for i, result := range r.numbers.Allocate(requests) {
		k := keys[i]
		r.reportOn(k, result)
		freed = freed || result.Changed
		switch {
		case len(result.Errors) == 0:
			delete(r.blocked, k)
			outcomes[k] = outcome{live: granted(specs[k], &requests[i], result.Assignment), changed: result.Changed}
		case result.Lost:
			r.blocked[k] = true
			outcomes[k] = outcome{changed: true}
		default:
			r.blocked[k] = true
		}
	}
	return freed
}

// reportOn turns what the allocator says into problems at the place of the
// definition in force.
func (r *registry) reportOn(k discovery.Key, result allocator.Result) {
	def, known := r.defs.inForce[serviceID(k)]
	if !known {
		return
	}
	var found []finding
	for warning, list := range map[bool][]*allocator.FieldError{false: result.Errors, true: result.Warnings} {
		for _, e := range list {
			reason := strings.TrimPrefix(e.Error(), e.Field+": ")
			found = append(found, def.doc.finding(def.object.source.fault(e.Field, reason), def.object, warning))
		}
	}
	r.ledger.set(allocationOwner{k}, found)
}

// forget releases what is remembered of services that nobody defines any more.
func (r *registry) forget() {
	for _, owner := range slices.Collect(r.numbers.Owners()) {
		namespace, name, _ := strings.Cut(owner, "/")
		if len(r.defs.all[serviceID(discovery.Key{Namespace: namespace, Name: name})]) == 0 {
			r.numbers.Release(owner)
		}
	}
}

// request says what a Service wants (A-04..A-08).
func request(k discovery.Key, spec *corev1.Service) allocator.Request {
	s := &spec.Spec
	req := allocator.Request{Owner: k.String(), Created: spec.CreationTimestamp.Time}
	if s.Type == corev1.ServiceTypeExternalName || s.ClusterIP == corev1.ClusterIPNone {
		return req
	}
	for i, family := range s.IPFamilies {
		req.Families = append(req.Families, allocatorFamily(family))
		named := netip.Addr{}
		if i < len(s.ClusterIPs) {
			named = parseAddr(s.ClusterIPs[i])
		}
		req.ClusterIPs = append(req.ClusterIPs, named)
	}
	if s.Type != corev1.ServiceTypeNodePort && s.Type != corev1.ServiceTypeLoadBalancer {
		return req
	}
	balanced := s.Type == corev1.ServiceTypeLoadBalancer
	allocate := !balanced || s.AllocateLoadBalancerNodePorts == nil || *s.AllocateLoadBalancerNodePorts
	for _, p := range s.Ports {
		req.Ports = append(req.Ports, allocator.PortRequest{
			Name: p.Name, Protocol: string(p.Protocol), Port: uint16(p.Port), NodePort: uint16(p.NodePort), Allocate: allocate,
		})
	}
	if balanced {
		req.HealthCheck = s.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
		req.HealthCheckNodePort = uint16(s.HealthCheckNodePort)
		req.Balancer = balancerRequest(spec)
	}
	return req
}

// balancerRequest reads who gives the service its load-balancer address: the
// manifest, if it has a status; else the pool, unless the service asks for
// another balancer by its class.
func balancerRequest(spec *corev1.Service) allocator.BalancerRequest {
	if points := spec.Status.LoadBalancer.Ingress; len(points) > 0 {
		b := allocator.BalancerRequest{Field: "status.loadBalancer.ingress"}
		for _, point := range points {
			if ip := parseAddr(point.IP); ip.IsValid() {
				b.Named = append(b.Named, ip)
			}
		}
		return b
	}
	if spec.Spec.LoadBalancerClass != nil {
		return allocator.BalancerRequest{}
	}
	b := allocator.BalancerRequest{Allocate: true, Field: "spec.loadBalancerIP"}
	if ip := parseAddr(spec.Spec.LoadBalancerIP); ip.IsValid() { //nolint:staticcheck // deprecated, but what people write
		b.Named = []netip.Addr{ip}
	}
	return b
}

func allocatorFamily(f corev1.IPFamily) allocator.Family {
	if f == corev1.IPv6Protocol {
		return allocator.IPv6
	}
	return allocator.IPv4
}

// granted returns the Service with what it was given, as an API server would
// have stored it. The spec itself stays as it was.
func granted(spec *corev1.Service, req *allocator.Request, a allocator.Assignment) *corev1.Service {
	live := *spec
	if len(req.Families) > 0 {
		live.Spec.ClusterIPs = make([]string, len(a.ClusterIPs))
		for i, ip := range a.ClusterIPs {
			live.Spec.ClusterIPs[i] = ip.String()
		}
		live.Spec.ClusterIP = live.Spec.ClusterIPs[0]
	}
	if len(a.NodePorts) > 0 {
		live.Spec.Ports = slices.Clone(spec.Spec.Ports)
		for i := range live.Spec.Ports {
			live.Spec.Ports[i].NodePort = int32(a.NodePorts[live.Spec.Ports[i].Name])
		}
	}
	live.Spec.HealthCheckNodePort = int32(a.HealthCheckNodePort)
	if req.Balancer.Allocate && len(a.LoadBalancerIPs) > 0 {
		mode := corev1.LoadBalancerIPModeVIP
		live.Status.LoadBalancer.Ingress = nil
		for _, ip := range a.LoadBalancerIPs {
			live.Status.LoadBalancer.Ingress = append(live.Status.LoadBalancer.Ingress,
				corev1.LoadBalancerIngress{IP: ip.String(), IPMode: &mode})
		}
	}
	return &live
}

// parseAddr reads an address as validation accepts it: with leading zeros,
// too. What is none gives the zero address.
func parseAddr(s string) netip.Addr {
	a, _ := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return a.Unmap()
}
