package ipvs

import (
	"net/netip"
	"slices"
	"time"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// This file is what ipvs mode does with a virtual server.
//
// IPVS knows one list of endpoints per address and port. A route that has the
// same set of endpoints as the outside's is served by that list; one that has
// another (a Local policy, I-10) by an IPVS server of its own, which goes by a
// packet mark instead of an address. SNAT, source ranges and empty sets are for
// the nf_tables half.

// server is a virtual server as IPVS knows it.
type server struct {
	key       serverKey
	spec      serverSpec
	endpoints []netip.AddrPort
	graceful  bool // endpoints that leave keep their connections (I-07)
}

// serverKey is what identifies an IPVS server: a frontend, or a mark.
type serverKey struct {
	frontend vip.Frontend // with a mark: only the family counts
	mark     uint32
}

func byMark(v6 bool, mark uint32) serverKey {
	return serverKey{frontend: vip.NodePortFrontend(v6, 0, 0), mark: mark}
}

// hashing is the scheduler that stands in for affinity where the kernel can't
// have it: an IPVS server by mark that remembers clients sends them to the port
// that they asked for, whatever the endpoint's is. Maglev hashing by the client's
// address keeps a client where it is, too, but for a few when endpoints change.
const hashing = "mh"

// translates reports whether an endpoint has another port than the frontend.
func (s server) translates(port uint16) bool {
	return slices.ContainsFunc(s.endpoints, func(to netip.AddrPort) bool { return to.Port() != port })
}

// serverSpec is how an IPVS server chooses among its endpoints.
type serverSpec struct {
	scheduler string
	flags     uint32
	affinity  time.Duration // 0: none
}

// compiled is what one frontend needs of the kernel.
type compiled struct {
	at       vip.Frontend // a concrete address, also for a node port
	source   *vip.VirtualServer
	servers  []server
	standing []ruleset.Element // true as long as the servers exist
	ranges   []ruleset.Element // who may come
	gates    []ruleset.Element // lets packets in, or turns them away
}

// compile works out what a virtual server needs at one of its addresses.
func (c *compiler) compile(at vip.Frontend, v *vip.VirtualServer) *compiled {
	s, key := setsOf[familyOf(at)], frontendKey(at)
	out := &compiled{at: at, source: v}
	out.servers = []server{c.server(serverKey{frontend: at}, v, v.Routes[vip.FromOutside].Set)}
	out.standing = append(out.standing, ruleset.Element{Set: s.owned, Key: string(key)})
	for _, source := range vip.Sources {
		route := v.Routes[source]
		chain := verdict(v, route)
		if chain == "" {
			mark := c.marks.of(markKey{at, source}) | markBits(route)
			marked := c.server(byMark(at.Is6(), mark), v, route.Set)
			if marked.spec.affinity > 0 && marked.translates(at.Port) {
				marked.spec = serverSpec{scheduler: hashing}
			}
			out.servers = append(out.servers, marked)
			out.standing = append(out.standing, ruleset.Element{
				Set: s.marks, Key: string(key) + string(sourceNumber(source)), Value: string(ruleset.AppendNumber(nil, mark)),
			})
			chain = markChain(familyOf(at), source)
		}
		out.gates = append(out.gates, ruleset.Element{Set: s.from[source], Key: string(key), Chain: chain})
	}
	switch v.Kind {
	case vip.KindClusterIP:
		out.standing = append(out.standing, ruleset.Element{Set: s.clusterIPs, Key: addressKey(at.Addr)})
	case vip.KindExternalIP, vip.KindLoadBalancer:
		out.gates = append(out.gates, ruleset.Element{Set: s.captured, Key: string(key)})
	}
	out.standing = slices.Concat(out.standing, hairpin(s, v), ports(s, v))
	out.ranges = sourceRanges(s, key, v)
	return out
}

// verdict is the chain that carries out a route; empty: an IPVS server of its
// own has to.
func verdict(v *vip.VirtualServer, r vip.Route) string {
	switch {
	case len(v.Endpoints(r.Set)) == 0 && r.Empty == vip.Drop:
		return dropChain
	case len(v.Endpoints(r.Set)) == 0:
		return rejectChain
	case r.Set != v.Routes[vip.FromOutside].Set:
		return ""
	case r.SNAT:
		return masqueradeChain
	default:
		return serveChain
	}
}

// closes reports whether a chain turns packets away.
func closes(chain string) bool { return chain == rejectChain || chain == dropChain }

func markBits(r vip.Route) uint32 {
	if r.SNAT {
		return oursBit | byMarkBit | masqBit
	}
	return oursBit | byMarkBit
}

func (c *compiler) server(key serverKey, v *vip.VirtualServer, set vip.Set) server {
	endpoints := v.Endpoints(set)
	out := server{key: key, spec: c.spec(v), graceful: v.Frontend.Protocol == discovery.TCP, endpoints: make([]netip.AddrPort, len(endpoints))}
	for i, e := range endpoints {
		out.endpoints[i] = e.AddrPort
	}
	return out
}

func (c *compiler) spec(v *vip.VirtualServer) serverSpec {
	spec := serverSpec{scheduler: c.scheduler, affinity: v.Affinity}
	if v.Scheduler != "" {
		spec.scheduler = v.Scheduler
	}
	spec.flags = c.flags[spec.scheduler]
	return spec
}

// hairpin names the endpoints that may run on this node (P-15).
func hairpin(s *familySets, v *vip.VirtualServer) []ruleset.Element {
	var elements []ruleset.Element
	seen := map[netip.Addr]bool{}
	for _, endpoints := range [][]vip.Endpoint{v.Cluster, v.Local} {
		for _, e := range endpoints {
			a := e.AddrPort.Addr()
			if (e.Local || e.Unplaced) && !seen[a] {
				seen[a] = true
				elements = append(elements, ruleset.Element{Set: s.hairpin, Key: addressKey(a) + addressKey(a)})
			}
		}
	}
	return elements
}

func sourceRanges(s *familySets, key []byte, v *vip.VirtualServer) []ruleset.Element {
	if !v.Restricted {
		return nil
	}
	elements := []ruleset.Element{{Set: s.restricted, Key: string(key)}}
	for _, p := range ruleset.MergePrefixes(v.SourceRanges) {
		first, last := ruleset.Interval(key, p)
		elements = append(elements, ruleset.Element{Set: s.ranges, Key: first, Last: last})
	}
	return elements
}

// compiler holds what is the same for all virtual servers.
type compiler struct {
	scheduler string            // for servers that ask for none
	flags     map[string]uint32 // by scheduler
	marks     marks
}

// markKey is who needs a mark.
type markKey struct {
	at     vip.Frontend
	source vip.Source
}

// marks gives out the numbers in marks, and the same again to who had one.
type marks struct {
	ids  map[markKey]uint32
	used map[uint32]bool
	last uint32
}

func newMarks() marks { return marks{ids: map[markKey]uint32{}, used: map[uint32]bool{}} }

// maxMarks is what fits in the upper half of a mark.
const maxMarks = 1<<idShift - 1

// of returns the number, shifted to its place. There are more than there can
// be IPVS servers of that kind on one node; when they are used up the last one
// serves twice.
func (m *marks) of(k markKey) uint32 {
	id, ok := m.ids[k]
	for range maxMarks {
		if ok {
			break
		}
		m.last = m.last%maxMarks + 1
		id, ok = m.last, !m.used[m.last]
	}
	m.take(k, id)
	return id << idShift
}

func (m *marks) take(k markKey, id uint32) { m.ids[k], m.used[id] = id, true }

func (m *marks) release(k markKey) {
	delete(m.used, m.ids[k])
	delete(m.ids, k)
}
