package printer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"signpost/cmd/signpost/admin"
)

const none = "<none>"

// kind is how one resource looks in a table.
type kind struct {
	names, wide []string
	row         func(text json.RawMessage, now time.Time, wide bool) (namespace string, cells []string, err error)
}

var columns = map[string]kind{
	admin.Services: {
		names: []string{"NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"}, wide: []string{"SELECTOR"},
		row: decode(serviceCells),
	},
	admin.Endpoints: {names: []string{"NAME", "ENDPOINTS", "AGE"}, row: decode(endpointsCells)},
	admin.Pods: {
		names: []string{"NAME", "READY", "STATUS", "AGE"}, wide: []string{"IP", "NODE"}, row: decode(podCells),
	},
	admin.Records: {
		names: []string{"NAME", "TTL", "TYPE", "DATA"}, wide: []string{"SERVICE"}, row: decode(recordCells),
	},
	admin.VirtualServers: {
		names: []string{"FRONTEND", "SERVICE", "KIND", "ENDPOINTS", "APPLIED", "AGE"},
		wide:  []string{"POD", "NODE", "OUTSIDE", "AFFINITY", "SOURCE-RANGES", "LOSERS"}, row: decode(virtualServerCells),
	},
}

// decode makes a row function of one that takes the decoded object.
func decode[T any, P interface {
	*T
	metav1.Object
}](cells func(P, time.Time, bool) []string) func(json.RawMessage, time.Time, bool) (string, []string, error) {
	return func(text json.RawMessage, now time.Time, wide bool) (string, []string, error) {
		object := P(new(T))
		if err := json.Unmarshal(text, object); err != nil {
			return "", nil, fmt.Errorf("decoding an object: %w", err)
		}
		return object.GetNamespace(), cells(object, now, wide), nil
	}
}

func serviceCells(s *corev1.Service, now time.Time, wide bool) []string {
	clusterIP := none
	if len(s.Spec.ClusterIPs) > 0 {
		clusterIP = s.Spec.ClusterIPs[0]
	}
	return []string{
		s.Name, string(s.Spec.Type), clusterIP, externalIP(s, wide), ports(s.Spec.Ports),
		age(s.CreationTimestamp, now), labels.FormatLabels(s.Spec.Selector),
	}
}

// externalIP follows kubectl, pending load balancers and all.
func externalIP(s *corev1.Service, wide bool) string {
	addresses := s.Spec.ExternalIPs
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		balancer := balancerAddresses(s.Status.LoadBalancer.Ingress, wide)
		if balancer == "" && len(addresses) == 0 {
			return "<pending>"
		}
		if balancer != "" {
			addresses = append([]string{balancer}, addresses...)
		}
	}
	return orNone(strings.Join(addresses, ","))
}

// balancerWidth is where kubectl cuts load balancer addresses off.
const balancerWidth = 16

func balancerAddresses(ingress []corev1.LoadBalancerIngress, wide bool) string {
	var list []string
	for _, i := range ingress {
		if address := i.IP + i.Hostname; !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	slices.Sort(list)
	text := strings.Join(list, ",")
	if !wide && len(text) > balancerWidth {
		text = text[:balancerWidth-3] + "..."
	}
	return text
}

func ports(list []corev1.ServicePort) string {
	parts := make([]string, len(list))
	for i, p := range list {
		parts[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			parts[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return orNone(strings.Join(parts, ","))
}

func endpointsCells(e *corev1.Endpoints, now time.Time, _ bool) []string { //nolint:staticcheck // kubectl's kind
	var addresses []string
	for _, subset := range e.Subsets {
		for _, a := range subset.Addresses {
			if len(subset.Ports) == 0 {
				addresses = append(addresses, a.IP)
			}
			for _, p := range subset.Ports {
				addresses = append(addresses, hostPort(a.IP, p.Port))
			}
		}
	}
	return []string{e.Name, few(addresses), age(e.CreationTimestamp, now)}
}

func hostPort(ip string, port int32) string {
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return ip + ":" + strconv.Itoa(int(port))
}

// few joins the first three.
func few(list []string) string {
	const most = 3
	if len(list) <= most {
		return orNone(strings.Join(list, ","))
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(list[:most], ","), len(list)-most)
}

func podCells(p *corev1.Pod, now time.Time, _ bool) []string {
	ready := corev1.ConditionUnknown
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			ready = c.Status
		}
	}
	status := string(p.Status.Phase)
	switch {
	case p.DeletionTimestamp != nil:
		status = "Terminating"
	case p.Status.Phase == corev1.PodSucceeded:
		status = "Completed"
	case p.Status.Phase == corev1.PodFailed:
		status = "Error"
	case status == "":
		status = "Unknown"
	}
	return []string{
		p.Name, string(ready), status, age(p.CreationTimestamp, now), orNone(p.Status.PodIP), orNone(p.Spec.NodeName),
	}
}

func recordCells(r *admin.Record, _ time.Time, _ bool) []string {
	return []string{r.Owner, strconv.FormatUint(uint64(r.TTL), 10), r.Type, r.Data, orNone(r.Name)}
}

func virtualServerCells(v *admin.VirtualServer, now time.Time, _ bool) []string {
	service := v.Name
	if v.PortName != "" {
		service += ":" + v.PortName
	}
	endpoints := v.Cluster
	if len(endpoints) == 0 {
		endpoints = v.Local
	}
	applied := none
	if v.Applied != nil {
		applied = strconv.FormatBool(*v.Applied)
	}
	ranges := strings.Join(v.SourceRanges, ",")
	if v.Restricted && ranges == "" {
		ranges = "closed"
	}
	return []string{
		v.Frontend, service, v.VirtualKind, few(endpoints), applied, age(v.CreationTimestamp, now),
		route(v, "pod"), route(v, "node"), route(v, "outside"),
		orNone(v.Affinity), orNone(ranges), orNone(strings.Join(v.Losers, ",")),
	}
}

// route says in a word or three what a source meets: "cluster+snat", "local/drop".
func route(v *admin.VirtualServer, source string) string {
	r := v.Routes[source]
	text := r.Set
	if r.SNAT {
		text += "+snat"
	}
	return text + "/" + r.Empty
}

func age(created metav1.Time, now time.Time) string {
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(created.Time))
}

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}
