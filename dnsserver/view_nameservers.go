package dnsserver

import (
	"net/netip"
	"slices"

	"signpost/discovery"
)

// nameserver is one name that the zones' NS records give.
type nameserver struct {
	service *answers // the service that selects this server; nil: ns.dns
	v4, v6  []byte
}

// findServers fills in what the view says about the server itself.
func (v *view) findServers() {
	v.servers = v.nameservers()
	v.v4, v.v6 = serverAddrs(v.servers)
}

// nameservers works out under which names this server is known: those of the
// services that have it as a ready endpoint or whose virtual address it
// listens on, else ns.dns with its own addresses (T2).
func (v *view) nameservers() []nameserver {
	var own []netip.Addr
	if v.conf.Addrs != nil {
		own = v.conf.Addrs()
	}
	var keys []discovery.Key
	for _, addr := range own {
		keys = append(keys, v.snap.ServicesAt(addr.Unmap())...)
	}
	slices.SortFunc(keys, discovery.Key.Compare)
	var servers []nameserver
	for _, k := range slices.Compact(keys) {
		if a, ok := v.services.Get(k); ok && a.servedBy(own) {
			servers = append(servers, nameserver{service: a, v4: a.v4, v6: a.v6})
		}
	}
	if len(servers) == 0 {
		v4, v6 := packAddrs(unmapped(own))
		servers = []nameserver{{v4: v4, v6: v6}}
	}
	return servers
}

// servedBy reports whether one of the addresses is a virtual address or an
// endpoint of the service, and the service's own name has addresses.
func (a *answers) servedBy(addrs []netip.Addr) bool {
	if len(a.v4)+len(a.v6) == 0 {
		return false
	}
	return slices.ContainsFunc(a.pointers(), func(p pointer) bool {
		return slices.ContainsFunc(addrs, func(addr netip.Addr) bool { return addr.Unmap() == p.addr })
	})
}

func unmapped(addrs []netip.Addr) []netip.Addr {
	list := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		list[i] = a.Unmap().WithZone("")
	}
	return list
}

func equalServers(a, b []nameserver) bool {
	return slices.EqualFunc(a, b, func(a, b nameserver) bool {
		sameName := (a.service == nil) == (b.service == nil) && (a.service == nil || a.service.key == b.service.key)
		return sameName && slices.Equal(a.v4, b.v4) && slices.Equal(a.v6, b.v6)
	})
}

// serverAddrs returns the addresses of ns.dns: those of all the names that the
// server is known by (T4), each once.
func serverAddrs(servers []nameserver) (v4, v6 []byte) {
	var all []netip.Addr
	for _, n := range servers {
		for octets := range slices.Chunk(n.v4, 4) {
			all = append(all, netip.AddrFrom4([4]byte(octets)))
		}
		for octets := range slices.Chunk(n.v6, 16) {
			all = append(all, netip.AddrFrom16([16]byte(octets)))
		}
	}
	return packAddrs(all)
}
