package discovery

import (
	"maps"
	"slices"
)

func (s *Service) equalIdentity(o *Service) bool {
	return s.Key == o.Key && s.UID == o.UID && s.Created.Equal(o.Created) &&
		s.Kind == o.Kind && s.Type == o.Type && s.Proxy == o.Proxy && s.HasProxy == o.HasProxy &&
		maps.Equal(s.Labels, o.Labels) && maps.Equal(s.Annotations, o.Annotations)
}

func (s *Service) equalSpec(o *Service) bool {
	return slices.Equal(s.ClusterIPs, o.ClusterIPs) && slices.Equal(s.ExternalIPs, o.ExternalIPs) &&
		slices.Equal(s.LoadBalancerIPs, o.LoadBalancerIPs) && slices.Equal(s.Ingress, o.Ingress) &&
		slices.Equal(s.Ports, o.Ports) && maps.Equal(s.Selector, o.Selector) &&
		s.ExternalName == o.ExternalName && s.PublishNotReady == o.PublishNotReady &&
		s.equalTraffic(o)
}

func (s *Service) equalTraffic(o *Service) bool {
	return s.InternalPolicy == o.InternalPolicy && s.ExternalPolicy == o.ExternalPolicy &&
		s.Affinity == o.Affinity && s.HealthCheckNodePort == o.HealthCheckNodePort &&
		s.SourceRangesSet == o.SourceRangesSet && slices.Equal(s.SourceRanges, o.SourceRanges)
}

func (e *Endpoint) equal(o *Endpoint) bool {
	return e.Addr == o.Addr && e.Hostname == o.Hostname && e.Node == o.Node && e.Zone == o.Zone &&
		e.Ready == o.Ready && e.Serving == o.Serving && e.Terminating == o.Terminating &&
		e.Target == o.Target && slices.Equal(e.ForZones, o.ForZones) && slices.Equal(e.ForNodes, o.ForNodes)
}

// Equal reports whether two pods are the same in everything that a consumer can see.
func (p *Pod) Equal(o *Pod) bool {
	if p == o {
		return true
	}
	if p == nil || o == nil {
		return false
	}
	return p.Key == o.Key && p.UID == o.UID && p.Node == o.Node && p.HostNetwork == o.HostNetwork &&
		p.Phase == o.Phase && p.Ready == o.Ready && p.Terminating == o.Terminating &&
		p.Created.Equal(o.Created) && slices.Equal(p.Addrs, o.Addrs) && maps.Equal(p.Labels, o.Labels)
}

// Equal reports whether two nodes are the same in everything that a consumer can see.
func (n *Node) Equal(o *Node) bool {
	if n == o {
		return true
	}
	if n == nil || o == nil {
		return false
	}
	return n.Name == o.Name && n.Zone == o.Zone && n.Deleting == o.Deleting &&
		slices.Equal(n.Addrs, o.Addrs) && slices.Equal(n.PodCIDRs, o.PodCIDRs)
}
