package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePod checks what signpost uses of a Pod and nothing else: a manifest
// without containers or images is a fine pod here, since nobody runs it.
func validatePod(p *corev1.Pod) field.ErrorList {
	errs := validateMeta(&p.ObjectMeta, namespaced, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, optionalSubdomain(specPath.Child("nodeName"), p.Spec.NodeName)...)
	errs = append(errs, optionalLabel(specPath.Child("hostname"), p.Spec.Hostname)...)
	errs = append(errs, optionalLabel(specPath.Child("subdomain"), p.Spec.Subdomain)...)
	names := sets.New[string]()
	errs = append(errs, validateContainers(specPath.Child("initContainers"), p.Spec.InitContainers, names)...)
	errs = append(errs, validateContainers(specPath.Child("containers"), p.Spec.Containers, names)...)
	return append(errs, validatePodStatus(&p.Status)...)
}

func validatePodStatus(s *corev1.PodStatus) field.ErrorList {
	var errs field.ErrorList
	if s.Phase != "" {
		errs = oneOf(statusPath.Child("phase"), s.Phase, []corev1.PodPhase{
			corev1.PodFailed, corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodUnknown,
		})
	}
	for i := range s.Conditions {
		path := statusPath.Child("conditions").Index(i)
		if s.Conditions[i].Type == "" {
			errs = append(errs, field.Required(path.Child("type"), ""))
		}
		errs = append(errs, oneOf(path.Child("status"), s.Conditions[i].Status, []corev1.ConditionStatus{
			corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown,
		})...)
	}
	path := statusPath.Child("podIPs")
	texts := make([]string, len(s.PodIPs))
	for i := range s.PodIPs {
		texts[i] = s.PodIPs[i].IP
		errs = append(errs, validation.IsValidIPForLegacyField(path.Index(i).Child("ip"), texts[i], true, nil)...)
	}
	return append(errs, oneOfEachFamily(path, texts)...)
}

func validateContainers(path *field.Path, containers []corev1.Container, names sets.Set[string]) field.ErrorList {
	var errs field.ErrorList
	for i := range containers {
		at, c := path.Index(i), &containers[i]
		errs = append(errs, optionalLabel(at.Child("name"), c.Name)...)
		if c.Name != "" && names.Has(c.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names.Insert(c.Name)
		errs = append(errs, validateContainerPorts(at.Child("ports"), c.Ports)...)
		if c.ReadinessProbe != nil {
			errs = append(errs, validateProbe(at.Child("readinessProbe"), c.ReadinessProbe)...)
		}
	}
	return errs
}

func validateContainerPorts(path *field.Path, ports []corev1.ContainerPort) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range ports {
		at, p := path.Index(i), &ports[i]
		if p.Name != "" {
			errs = append(errs, invalidFor(at.Child("name"), p.Name, validation.IsValidPortName(p.Name))...)
			if names.Has(p.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names.Insert(p.Name)
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, invalidFor(at.Child("containerPort"), p.ContainerPort, validation.IsValidPortNum(int(p.ContainerPort)))...)
		}
		errs = append(errs, validateProtocol(at.Child("protocol"), p.Protocol)...)
	}
	return errs
}

// validateProbe checks a readiness probe, which a folder of manifests may ask
// signpost to run.
func validateProbe(path *field.Path, p *corev1.Probe) field.ErrorList {
	errs := validateHandler(path, &p.ProbeHandler)
	for _, n := range [...]struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds},
		{"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold},
		{"failureThreshold", p.FailureThreshold},
	} {
		if n.value < 0 {
			errs = append(errs, field.Invalid(path.Child(n.name), n.value, "must be greater than or equal to 0"))
		}
	}
	if p.TerminationGracePeriodSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("terminationGracePeriodSeconds"), "may not be set for readiness probes"))
	}
	return errs
}

func validateHandler(path *field.Path, h *corev1.ProbeHandler) field.ErrorList {
	var errs field.ErrorList
	kinds := 0
	if h.Exec != nil {
		kinds++
		if len(h.Exec.Command) == 0 {
			errs = append(errs, field.Required(path.Child("exec", "command"), ""))
		}
	}
	if h.HTTPGet != nil {
		kinds++
		errs = append(errs, validateHTTPGet(path.Child("httpGet"), h.HTTPGet)...)
	}
	if h.TCPSocket != nil {
		kinds++
		errs = append(errs, validateTarget(path.Child("tcpSocket", "port"), h.TCPSocket.Port)...)
	}
	if h.GRPC != nil {
		kinds++
		errs = append(errs, invalidFor(path.Child("grpc", "port"), h.GRPC.Port, validation.IsValidPortNum(int(h.GRPC.Port)))...)
	}
	switch {
	case kinds == 0:
		errs = append(errs, field.Required(path, "must specify one of exec, httpGet, tcpSocket, grpc"))
	case kinds > 1:
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("may specify only one kind of probe, not %d", kinds)))
	}
	return errs
}

func validateHTTPGet(path *field.Path, g *corev1.HTTPGetAction) field.ErrorList {
	errs := validateTarget(path.Child("port"), g.Port)
	if g.Path == "" {
		errs = append(errs, field.Required(path.Child("path"), ""))
	}
	errs = append(errs, oneOf(path.Child("scheme"), g.Scheme, []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS})...)
	for i, h := range g.HTTPHeaders {
		errs = append(errs, invalidFor(path.Child("httpHeaders").Index(i).Child("name"), h.Name, validation.IsHTTPHeaderName(h.Name))...)
	}
	return errs
}

// validateNode checks what signpost uses of a Node.
func validateNode(n *corev1.Node) field.ErrorList {
	errs := validateMeta(&n.ObjectMeta, clusterScoped, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, validatePodCIDRs(specPath.Child("podCIDRs"), n.Spec.PodCIDRs)...)
	seen := sets.New[corev1.NodeAddress]()
	for i, a := range n.Status.Addresses {
		path := statusPath.Child("addresses").Index(i)
		if seen.Has(a) {
			errs = append(errs, field.Duplicate(path, a))
		}
		seen.Insert(a)
		if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
			errs = append(errs, validation.IsValidIPForLegacyField(path.Child("address"), a.Address, false, nil)...)
		}
	}
	return errs
}

func validatePodCIDRs(path *field.Path, cidrs []string) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.IPFamily]()
	for i, text := range cidrs {
		problems := validation.IsValidCIDRForLegacyField(path.Index(i), text, false, nil)
		errs = append(errs, problems...)
		p, ok := parsePrefix(text)
		if !ok || len(problems) > 0 {
			continue
		}
		if seen.Has(familyOf(p.Addr())) {
			errs = append(errs, field.Invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
		}
		seen.Insert(familyOf(p.Addr()))
	}
	return errs
}
