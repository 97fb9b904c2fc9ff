package convert

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of an EndpointSlice.
const (
	maxSliceEndpoints = 1000
	maxSlicePorts     = 100
	maxSliceAddresses = 100
	maxHints          = 8
)

//nolint:staticcheck // deprecated, but people write them (E-21)
func (o Options) validateEndpoints(e *corev1.Endpoints) field.ErrorList {
	errs := validateMeta(&e.ObjectMeta, namespaced, apivalidation.NameIsDNSSubdomain)
	for i := range e.Subsets {
		errs = append(errs, o.validateSubset(field.NewPath("subsets").Index(i), &e.Subsets[i])...)
	}
	return errs
}

//nolint:staticcheck // deprecated, but people write them (E-21)
func (o Options) validateSubset(path *field.Path, s *corev1.EndpointSubset) field.ErrorList {
	var errs field.ErrorList
	if len(s.Addresses) == 0 && len(s.NotReadyAddresses) == 0 {
		errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
	}
	for i := range s.Addresses {
		errs = append(errs, o.validateEndpointAddress(path.Child("addresses").Index(i), &s.Addresses[i])...)
	}
	for i := range s.NotReadyAddresses {
		errs = append(errs, o.validateEndpointAddress(path.Child("notReadyAddresses").Index(i), &s.NotReadyAddresses[i])...)
	}
	for i := range s.Ports {
		at, p := path.Child("ports").Index(i), &s.Ports[i]
		if p.Name == "" && len(s.Ports) > 1 {
			errs = append(errs, field.Required(at.Child("name"), "must be set when there are several ports"))
		}
		errs = append(errs, optionalLabel(at.Child("name"), p.Name)...)
		errs = append(errs, invalidFor(at.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
		errs = append(errs, validateProtocol(at.Child("protocol"), p.Protocol)...)
		errs = append(errs, validateAppProtocol(at.Child("appProtocol"), p.AppProtocol)...)
	}
	return errs
}

//nolint:staticcheck // deprecated, but people write them (E-21)
func (o Options) validateEndpointAddress(path *field.Path, a *corev1.EndpointAddress) field.ErrorList {
	errs := o.endpointIP(path.Child("ip"), a.IP, "")
	errs = append(errs, optionalLabel(path.Child("hostname"), a.Hostname)...)
	return append(errs, optionalSubdomain(path.Child("nodeName"), value(a.NodeName, ""))...)
}

// endpointIP checks an endpoint's address: of the family, if one is given, and
// usable for traffic. Its spelling may be any that was ever accepted (P-09).
func (o Options) endpointIP(path *field.Path, text string, family discoveryv1.AddressType) field.ErrorList {
	errs := validation.IsValidIPForLegacyField(path, text, false, nil)
	a, ok := parseAddr(text)
	if !ok || len(errs) > 0 {
		return errs
	}
	if family != "" && string(familyOf(a)) != string(family) {
		errs = append(errs, field.Invalid(path, text, "must be an "+string(family)+" address"))
	}
	if reason := notForTraffic(a, o.AllowLoopback); reason != "" {
		errs = append(errs, field.Invalid(path, text, reason))
	}
	return errs
}

func (o Options) validateSlice(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := validateMeta(&s.ObjectMeta, namespaced, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, validateAddressType(s, old)...)
	endpoints, ports := field.NewPath("endpoints"), field.NewPath("ports")
	if n := len(s.Endpoints); n > maxSliceEndpoints {
		return append(errs, field.TooMany(endpoints, n, maxSliceEndpoints))
	}
	for i := range s.Endpoints {
		errs = append(errs, o.validateEndpoint(endpoints.Index(i), &s.Endpoints[i], s.AddressType)...)
	}
	if n := len(s.Ports); n > maxSlicePorts {
		return append(errs, field.TooMany(ports, n, maxSlicePorts))
	}
	names := sets.New[string]()
	for i := range s.Ports {
		errs = append(errs, validateSlicePort(ports.Index(i), &s.Ports[i], names)...)
	}
	return errs
}

func validateAddressType(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	path := field.NewPath("addressType")
	switch {
	case s.AddressType == "":
		return field.ErrorList{field.Required(path, "")}
	case old != nil && old.AddressType != s.AddressType:
		return field.ErrorList{field.Invalid(path, s.AddressType, immutable)}
	default:
		return oneOf(path, s.AddressType, []discoveryv1.AddressType{
			discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6,
		})
	}
}

func (o Options) validateEndpoint(path *field.Path, e *discoveryv1.Endpoint, t discoveryv1.AddressType) field.ErrorList {
	var errs field.ErrorList
	addresses := path.Child("addresses")
	switch n := len(e.Addresses); {
	case n == 0:
		errs = append(errs, field.Required(addresses, "must contain at least one address"))
	case n > maxSliceAddresses:
		errs = append(errs, field.TooMany(addresses, n, maxSliceAddresses))
	default:
		for i, text := range e.Addresses {
			errs = append(errs, o.sliceAddress(addresses.Index(i), text, t)...)
		}
	}
	errs = append(errs, optionalLabel(path.Child("hostname"), value(e.Hostname, ""))...)
	errs = append(errs, optionalSubdomain(path.Child("nodeName"), value(e.NodeName, ""))...)
	if e.Hints != nil {
		errs = append(errs, validateHints(path.Child("hints"), e.Hints)...)
	}
	return errs
}

func (o Options) sliceAddress(path *field.Path, text string, t discoveryv1.AddressType) field.ErrorList {
	switch t {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
		return o.endpointIP(path, text, t)
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(path, text)
	default:
		return nil // the type is the problem
	}
}

func validateHints(path *field.Path, h *discoveryv1.EndpointHints) field.ErrorList {
	zones, nodes := make([]string, len(h.ForZones)), make([]string, len(h.ForNodes))
	for i, z := range h.ForZones {
		zones[i] = z.Name
	}
	for i, n := range h.ForNodes {
		nodes[i] = n.Name
	}
	errs := validateHintList(path.Child("forZones"), zones, validation.IsValidLabelValue)
	return append(errs, validateHintList(path.Child("forNodes"), nodes, validation.IsDNS1123Subdomain)...)
}

func validateHintList(path *field.Path, names []string, check func(string) []string) field.ErrorList {
	if len(names) > maxHints {
		return field.ErrorList{field.TooMany(path, len(names), maxHints)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, name := range names {
		at := path.Index(i).Child("name")
		switch {
		case name == "":
			errs = append(errs, field.Required(at, ""))
		case seen.Has(name):
			errs = append(errs, field.Duplicate(at, name))
		default:
			errs = append(errs, invalidFor(at, name, check(name))...)
		}
		seen.Insert(name)
	}
	return errs
}

// validateSlicePort checks one port. Number 0 passes, as it does for an API
// server; the conversion then ignores the port (P-03).
func validateSlicePort(path *field.Path, p *discoveryv1.EndpointPort, names sets.Set[string]) field.ErrorList {
	name := value(p.Name, "")
	errs := optionalLabel(path.Child("name"), name)
	if names.Has(name) {
		errs = append(errs, field.Duplicate(path.Child("name"), name))
	}
	names.Insert(name)
	if number := value(p.Port, 0); number != 0 {
		errs = append(errs, invalidFor(path.Child("port"), number, validation.IsValidPortNum(int(number)))...)
	}
	errs = append(errs, validateProtocol(path.Child("protocol"), value(p.Protocol, ""))...)
	return append(errs, validateAppProtocol(path.Child("appProtocol"), p.AppProtocol)...)
}
