package vip

import (
	"net/netip"
	"slices"

	"signpost/discovery"
)

// canonical is the one form of an address that is compared and used as a key (P-09).
func canonical(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// usableAddr reports whether an address can be one end of a connection.
func usableAddr(a netip.Addr) bool { return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() }

func (b *planning) usableClusterIPs() []netip.Addr {
	return b.usable("spec.clusterIPs", b.service.ClusterIPs, func(netip.Addr) string { return "" })
}

// usableExternalIPs leaves out what an external IP may not be (P-27).
func (b *planning) usableExternalIPs() []netip.Addr {
	return b.usable("spec.externalIPs", b.service.ExternalIPs, b.refusal)
}

func (b *planning) usableLoadBalancerIPs() []netip.Addr {
	if b.service.Type != discovery.TypeLoadBalancer {
		return nil
	}
	return b.usable("status.loadBalancer.ingress", b.service.LoadBalancerIPs, func(netip.Addr) string { return "" })
}

// usable returns a field's addresses in canonical form and warns about those
// that can't be programmed. An empty reason is none.
func (b *planning) usable(field string, addrs []netip.Addr, refusal func(netip.Addr) string) []netip.Addr {
	list := make([]netip.Addr, 0, len(addrs))
	for i, a := range addrs {
		a = canonical(a)
		reason := "not a unicast address"
		if usableAddr(a) {
			reason = refusal(a)
		}
		switch {
		case reason != "":
			b.warn("%s[%d] %q: %s", field, i, a, reason)
		case !slices.Contains(list, a):
			list = append(list, a)
		}
	}
	return list
}

// refusal says why an address may not be an external IP (CVE-2020-8554).
func (b *planning) refusal(a netip.Addr) string {
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	switch {
	case a.IsLoopback():
		return "a loopback address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case len(b.options.AllowExternalIPs) > 0:
		if slices.ContainsFunc(b.options.AllowExternalIPs, in) {
			return ""
		}
		return "not in the allowed ranges"
	case slices.ContainsFunc(b.node.ServiceCIDRs, in):
		return "in the service range"
	case slices.ContainsFunc(b.node.Detector.CIDRs, in):
		return "in the pod range"
	case slices.Contains(b.node.Addrs, a), slices.Contains(b.node.PeerAddrs, a):
		return "a node's address"
	default:
		return ""
	}
}

// addresses are a service's addresses by kind, in canonical form.
type addresses struct{ cluster, external, balanced []netip.Addr }

func (b *planning) usableAddresses() addresses {
	return addresses{
		cluster: b.usableClusterIPs(), external: b.usableExternalIPs(), balanced: b.usableLoadBalancerIPs(),
	}
}

// family returns the addresses of one family.
func (a addresses) family(v6 bool) addresses {
	return addresses{cluster: family(a.cluster, v6), external: family(a.external, v6), balanced: family(a.balanced, v6)}
}

// destinations lists the addresses of one family on which the service's ports
// answer.
func (b *planning) destinations(v6 bool, own addresses) []destination {
	var list []destination
	for _, a := range own.cluster {
		list = append(list, destination{addr: a, kind: KindClusterIP})
	}
	for _, a := range own.external {
		list = append(list, destination{addr: a, kind: KindExternalIP})
	}
	if len(own.balanced) == 0 {
		return list
	}
	restricted, ranges := b.sourceRanges(v6)
	for _, a := range own.balanced {
		list = append(list, destination{addr: a, kind: KindLoadBalancer, restricted: restricted, ranges: b.withSelf(a, ranges)})
	}
	return list
}

// sourceRanges returns who may use the load-balancer addresses of a family. A
// list without a usable entry closes them: it was meant to keep somebody out (P-18).
func (b *planning) sourceRanges(v6 bool) (restricted bool, ranges []netip.Prefix) {
	if !b.service.SourceRangesSet {
		return false, nil
	}
	for _, p := range b.service.SourceRanges {
		p, ok := canonicalPrefix(p)
		if !ok || p.Addr().Is6() != v6 {
			continue
		}
		if p.Bits() == 0 {
			return false, nil // everybody
		}
		ranges = append(ranges, p)
	}
	if len(ranges) == 0 {
		return b.noUsableRange(v6), nil
	}
	slices.SortFunc(ranges, netip.Prefix.Compare)
	return true, slices.Compact(ranges)
}

func (b *planning) noUsableRange(v6 bool) (restricted bool) {
	name := familyName(v6)
	if b.options.OpenUnusableRanges {
		b.warn("spec.loadBalancerSourceRanges: no usable %s range: the %s load-balancer addresses are open to all", name, name)
		return false
	}
	b.warn("spec.loadBalancerSourceRanges: no usable %s range: the %s load-balancer addresses are closed", name, name)
	return true
}

// withSelf admits the address itself if this node is admitted: a process here
// may use it as its source where it is bound to this machine (P-18).
func (b *planning) withSelf(a netip.Addr, ranges []netip.Prefix) []netip.Prefix {
	admitted := func(p netip.Prefix) bool { return slices.ContainsFunc(b.node.Addrs, p.Contains) }
	if !slices.ContainsFunc(ranges, admitted) || slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return ranges
	}
	list := append(slices.Clone(ranges), netip.PrefixFrom(a, a.BitLen()))
	slices.SortFunc(list, netip.Prefix.Compare)
	return list
}

// canonicalPrefix returns the prefix with its host bits zero, and IPv4 as IPv4.
func canonicalPrefix(p netip.Prefix) (netip.Prefix, bool) {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), p.IsValid()
}

func familyName(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}
