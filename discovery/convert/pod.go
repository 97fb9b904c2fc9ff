package convert

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"signpost/discovery"
)

// taintDeleted is how the cluster autoscaler announces that it is about to
// delete a node (L-04).
const taintDeleted = "ToBeDeletedByClusterAutoscaler"

// Pod makes the model's pod from an API Pod. Addresses that can't be parsed
// are left out.
func Pod(p *corev1.Pod) *discovery.Pod {
	return &discovery.Pod{
		Key:         discovery.Key{Namespace: p.Namespace, Name: p.Name},
		UID:         string(p.UID),
		Addrs:       podAddrs(&p.Status),
		Node:        p.Spec.NodeName,
		HostNetwork: p.Spec.HostNetwork,
		Phase:       string(p.Status.Phase),
		Ready:       isReady(&p.Status),
		Terminating: p.DeletionTimestamp != nil,
		Created:     p.CreationTimestamp.Time,
		Labels:      p.Labels,
	}
}

func podAddrs(s *corev1.PodStatus) []netip.Addr {
	var addrs []netip.Addr
	for _, ip := range s.PodIPs {
		addrs = appendAddr(addrs, ip.IP)
	}
	if len(s.PodIPs) == 0 {
		addrs = appendAddr(addrs, s.PodIP)
	}
	return addrs
}

// appendAddr adds an address that is one and is not there yet.
func appendAddr(addrs []netip.Addr, text string) []netip.Addr {
	if a, ok := parseAddr(text); ok && !slices.Contains(addrs, a) {
		return append(addrs, a)
	}
	return addrs
}

func isReady(s *corev1.PodStatus) bool {
	for i := range s.Conditions {
		if s.Conditions[i].Type == corev1.PodReady {
			return s.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

// Node makes the model's node from an API Node. Addresses and pod CIDRs that
// can't be parsed are left out.
func Node(n *corev1.Node) *discovery.Node {
	made := &discovery.Node{
		Name:     n.Name,
		Zone:     n.Labels[corev1.LabelTopologyZone],
		Addrs:    nodeAddrs(n.Status.Addresses),
		Deleting: n.DeletionTimestamp != nil || hasTaint(n, taintDeleted),
	}
	texts := n.Spec.PodCIDRs
	if len(texts) == 0 {
		texts = []string{n.Spec.PodCIDR}
	}
	for _, text := range texts {
		if p, ok := parsePrefix(text); ok {
			made.PodCIDRs = append(made.PodCIDRs, p)
		}
	}
	return made
}

// nodeAddrs returns the internal addresses, then the external ones.
func nodeAddrs(from []corev1.NodeAddress) []netip.Addr {
	var addrs []netip.Addr
	for _, wanted := range [...]corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range from {
			if a.Type == wanted {
				addrs = appendAddr(addrs, a.Address)
			}
		}
	}
	return addrs
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}
