package convert

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePorts checks the ports of a Service one by one and against each other.
func validatePorts(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	seen := seenPorts{names: sets.New[string](), ports: sets.New[string](), nodePorts: sets.New[string]()}
	for i := range spec.Ports {
		path, p := specPath.Child("ports").Index(i), &spec.Ports[i]
		errs = append(errs, validatePort(path, p, spec.Type)...)
		if p.Name == "" && len(spec.Ports) > 1 {
			errs = append(errs, field.Required(path.Child("name"), "must be set when there are several ports"))
		}
		errs = append(errs, seen.add(path, p)...)
	}
	return errs
}

// validatePort checks one port. Whether its node port is in range and free is
// the allocator's business.
func validatePort(path *field.Path, p *corev1.ServicePort, t corev1.ServiceType) field.ErrorList {
	errs := optionalLabel(path.Child("name"), p.Name)
	errs = append(errs, invalidFor(path.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
	errs = append(errs, validateProtocol(path.Child("protocol"), p.Protocol)...)
	// A port that is out of range is its own default target: once is enough.
	if p.TargetPort != intstr.FromInt32(p.Port) {
		errs = append(errs, validateTarget(path.Child("targetPort"), p.TargetPort)...)
	}
	errs = append(errs, validateAppProtocol(path.Child("appProtocol"), p.AppProtocol)...)
	switch nodePort := path.Child("nodePort"); {
	case p.NodePort == 0:
	case !needsNodePorts(t):
		errs = append(errs, field.Forbidden(nodePort, "may not be used when `type` is '"+string(t)+"'"))
	case !isPort(p.NodePort):
		errs = append(errs, invalidFor(nodePort, p.NodePort, validation.IsValidPortNum(int(p.NodePort)))...)
	}
	if t == corev1.ServiceTypeLoadBalancer && p.Port == kubeletPort {
		errs = append(errs, field.Invalid(path.Child("port"), p.Port, "may not be exposed by a load balancer, it is the kubelet's"))
	}
	return errs
}

// validateTarget checks the number or the name of a container's port.
func validateTarget(path *field.Path, target intstr.IntOrString) field.ErrorList {
	if target.Type == intstr.Int {
		return invalidFor(path, target.IntVal, validation.IsValidPortNum(int(target.IntVal)))
	}
	return invalidFor(path, target.StrVal, validation.IsValidPortName(target.StrVal))
}

// seenPorts remembers what ports of one Service must not share. One node port
// may serve two protocols.
type seenPorts struct{ names, ports, nodePorts sets.Set[string] }

func (s seenPorts) add(path *field.Path, p *corev1.ServicePort) field.ErrorList {
	var errs field.ErrorList
	if p.Name != "" && s.names.Has(p.Name) {
		errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
	}
	s.names.Insert(p.Name)

	id := portID(p.Port, string(p.Protocol))
	if s.ports.Has(id) {
		errs = append(errs, field.Duplicate(path, id))
	}
	s.ports.Insert(id)

	if p.NodePort == 0 {
		return errs
	}
	id = portID(p.NodePort, string(p.Protocol))
	if s.nodePorts.Has(id) {
		errs = append(errs, field.Duplicate(path.Child("nodePort"), p.NodePort))
	}
	s.nodePorts.Insert(id)
	return errs
}
