package convert

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"signpost/discovery"
)

// Slice makes the model's slice from an API EndpointSlice, with warnings for
// what it had to leave out. It returns nil for an address type other than IPv4
// and IPv6: what an FQDN slice means was never defined (dns-requirements H19).
func Slice(s *discoveryv1.EndpointSlice) (*discovery.Slice, []string) {
	var w warnings
	if s.AddressType != discoveryv1.AddressTypeIPv4 && s.AddressType != discoveryv1.AddressTypeIPv6 {
		w.invalid(field.NewPath("addressType"), s.AddressType, "neither IPv4 nor IPv6, the slice is ignored")
		return nil, w
	}
	return &discovery.Slice{
		Name:      s.Name,
		Ports:     w.endpointPorts(s.Ports),
		Endpoints: w.endpoints(s),
		Trigger:   w.trigger(s.Annotations[corev1.EndpointsLastChangeTriggerTime]),
	}, w
}

// endpointPorts converts the ports that can serve a Service's port. One
// without a number says "all ports", which no Service can use (P-03).
func (w *warnings) endpointPorts(from []discoveryv1.EndpointPort) []discovery.EndpointPort {
	if len(from) == 0 {
		return nil
	}
	made := make([]discovery.EndpointPort, 0, len(from))
	for i := range from {
		path := func() *field.Path { return field.NewPath("ports").Index(i) }
		p := &from[i]
		protocol, err := discovery.ParseProtocol(string(value(p.Protocol, corev1.ProtocolTCP)))
		switch number := value(p.Port, 0); {
		case err != nil:
			w.invalid(path().Child("protocol"), *p.Protocol, "unknown protocol, the port is ignored")
		case !isPort(number):
			w.invalid(path().Child("port"), p.Port, outOfPorts+", the port is ignored")
		default:
			made = append(made, discovery.EndpointPort{Name: value(p.Name, ""), Protocol: protocol, Port: uint16(number)})
		}
	}
	return made
}

func (w *warnings) endpoints(s *discoveryv1.EndpointSlice) []discovery.Endpoint {
	if len(s.Endpoints) == 0 {
		return nil
	}
	made := make([]discovery.Endpoint, 0, len(s.Endpoints))
	for i := range s.Endpoints {
		if e, ok := w.endpoint(s, i); ok {
			made = append(made, e)
		}
	}
	return made
}

// endpoint converts one endpoint. Only its first address counts: the others
// are fungible with it by definition, and nothing sets more than one (P-09).
func (w *warnings) endpoint(s *discoveryv1.EndpointSlice, i int) (discovery.Endpoint, bool) {
	from := &s.Endpoints[i]
	path := func() *field.Path { return field.NewPath("endpoints").Index(i) }
	if len(from.Addresses) == 0 {
		w.invalid(path().Child("addresses"), from.Addresses, "must contain at least one address, the endpoint is ignored")
		return discovery.Endpoint{}, false
	}
	a, ok := parseAddr(from.Addresses[0])
	if !ok || string(familyOf(a)) != string(s.AddressType) {
		w.invalid(path().Child("addresses").Index(0), from.Addresses[0],
			"must be an "+string(s.AddressType)+" address, the endpoint is ignored")
		return discovery.Endpoint{}, false
	}
	made := discovery.Endpoint{
		Addr: a, Node: value(from.NodeName, ""), Zone: value(from.Zone, ""),
		Hostname: w.hostname(value(from.Hostname, ""), path),
		Target:   target(from.TargetRef, s.Namespace),
	}
	made.Ready, made.Serving, made.Terminating = conditions(&from.Conditions)
	made.ForZones, made.ForNodes = hints(from.Hints)
	return made, true
}

// hostname returns an endpoint's hostname, or none if it is not one label: no
// name in DNS could ever be that endpoint's (cases B26).
func (w *warnings) hostname(name string, path func() *field.Path) string {
	if strings.Contains(name, ".") || len(name) > 63 {
		w.invalid(path().Child("hostname"), name, "must be a single DNS label, ignored")
		return ""
	}
	return name
}

// conditions reads an endpoint's conditions. A missing one is ready and not
// terminating. A missing serving condition is true, except where terminating
// is missing too: then the object comes from an API that knows only ready, and
// serving is what ready is (P-06).
func conditions(c *discoveryv1.EndpointConditions) (ready, serving, terminating bool) {
	ready, terminating = value(c.Ready, true), value(c.Terminating, false)
	serving = c.Terminating != nil || ready
	return ready, value(c.Serving, serving), terminating
}

func hints(h *discoveryv1.EndpointHints) (zones, nodes []string) {
	if h == nil {
		return nil, nil
	}
	for _, z := range h.ForZones {
		zones = append(zones, z.Name)
	}
	for _, n := range h.ForNodes {
		nodes = append(nodes, n.Name)
	}
	return zones, nodes
}

// target names the object behind an endpoint; one without a namespace lives
// where the slice does.
func target(ref *corev1.ObjectReference, namespace string) discovery.TargetRef {
	if ref == nil {
		return discovery.TargetRef{}
	}
	made := discovery.TargetRef{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID)}
	if made.Namespace == "" && made.Kind == "Pod" {
		made.Namespace = namespace
	}
	return made
}

func (w *warnings) trigger(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		w.invalid(field.NewPath("metadata", "annotations").Key(corev1.EndpointsLastChangeTriggerTime), text,
			"must be a time as in RFC 3339, ignored")
		return time.Time{}
	}
	return t
}

// value is what a pointer points to, or the fallback where it is nil.
func value[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}
