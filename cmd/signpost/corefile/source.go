package corefile

import (
	"net/netip"
	"strings"

	"signpost/discovery/allocator"
	"signpost/discovery/manifest"
)

// defaultServiceCIDR is kubeadm's.
var defaultServiceCIDR = netip.MustParsePrefix("10.96.0.0/12")

// manifests reads "manifests FOLDER { … }": the source is a folder.
func (b *builder) manifests(s *scan) {
	m := &manifest.Config{Dir: s.word("a folder"), NodePorts: allocator.DefaultNodePorts}
	s.options(map[string]func(*scan){
		"service_cidr":       func(o *scan) { m.ServiceCIDRs = serviceCIDRs(o) },
		"node_port_range":    func(o *scan) { m.NodePorts = portRange(o) },
		"load_balancer_pool": func(o *scan) { m.LoadBalancerPools = o.prefixes(1, -1, "one or more networks") },
		"state":              func(o *scan) { m.StateFile = o.word("a file") },
		"probe":              func(o *scan) { o.noArgs(); m.Probe = true },
	})
	if len(m.ServiceCIDRs) == 0 {
		m.ServiceCIDRs = []netip.Prefix{defaultServiceCIDR}
	}
	if m.Dir != "" {
		b.config.Manifests, b.config.ManifestsAt = m, s.place()
	}
}

func serviceCIDRs(o *scan) []netip.Prefix {
	list := o.prefixes(1, 2, "one network, or one of each family")
	if len(list) == 2 && list[0].Addr().Is4() == list[1].Addr().Is4() {
		o.argError(strings.Join(o.args, " "), "one network, or one of each family")
	}
	return list
}

// portRange reads "FIRST-LAST".
func portRange(o *scan) allocator.PortRange {
	text := o.word("FIRST-LAST")
	if text == "" {
		return allocator.PortRange{}
	}
	ports, err := allocator.ParsePortRange(text)
	if err != nil {
		o.argError(text, "FIRST-LAST with ports between 1 and 65535, such as 30000-32767")
	}
	return ports
}

// admin reads "admin unix://PATH".
func (b *builder) admin(s *scan) {
	s.noBody()
	address := s.word("unix://PATH")
	if path, found := strings.CutPrefix(address, "unix://"); address != "" && (!found || path == "") {
		s.argError(address, "unix://PATH, such as unix:///run/signpost.sock")
	}
	b.config.Admin = address
}
