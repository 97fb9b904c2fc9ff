package dnsserver

import (
	"bytes"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// clusterZone is one zone that is served. It never changes.
type clusterZone struct {
	name         string // lower case, fully qualified
	wire         []byte // the same in wire form
	labels       int
	reverse      bool
	multicluster bool
	private      bool // never falls through (R12)
	// parent is the zone that NS, SOA and PTR records of this zone point into:
	// the zone itself, or for a reverse zone the first cluster zone.
	parent *clusterZone
	// below lists the zones under this one, which make the names on the way to
	// them exist.
	below []*clusterZone
}

// newZones makes the zones of a configuration, those with most labels first,
// so that the first match is the closest. Names that are none are left out.
func newZones(c ClusterConfig) []*clusterZone {
	var zones []*clusterZone
	add := func(name string, private bool) {
		name = canonicalZone(name)
		if at := slices.IndexFunc(zones, func(z *clusterZone) bool { return z.name == name }); at >= 0 {
			zones[at].private = zones[at].private || private
			return
		}
		if z := newZone(name); z != nil {
			z.private = private
			zones = append(zones, z)
		}
	}
	for _, z := range c.Zones {
		add(z, false)
	}
	for _, p := range c.PrivateReverse {
		for _, z := range ReverseZones(p) {
			add(z, true)
		}
	}
	for _, z := range zones {
		z.multicluster = slices.ContainsFunc(c.Multicluster, func(m string) bool { return canonicalZone(m) == z.name })
	}
	relate(zones)
	slices.SortStableFunc(zones, func(a, b *clusterZone) int { return b.labels - a.labels })
	return zones
}

// newZone returns the zone of that name, or nil if it is no name.
func newZone(name string) *clusterZone {
	var n queryName
	if !n.parse(name) {
		return nil
	}
	z := &clusterZone{name: name, wire: slices.Clone(n.wire[:n.size]), labels: n.labels}
	z.reverse = dns.IsSubDomain("in-addr.arpa.", name) || dns.IsSubDomain("ip6.arpa.", name)
	return z
}

// relate connects zones that are still in the order of the configuration.
func relate(zones []*clusterZone) {
	primary := newZone(defaultZone)
	if at := slices.IndexFunc(zones, (*clusterZone).isPrimary); at >= 0 {
		primary = zones[at]
	}
	for _, z := range zones {
		z.parent = z
		if z.reverse {
			z.parent = primary
		}
		for _, other := range zones {
			if other.labels > z.labels && strings.HasSuffix("."+other.name, "."+strings.TrimPrefix(z.name, ".")) {
				z.below = append(z.below, other)
			}
		}
	}
}

func (z *clusterZone) isPrimary() bool { return !z.reverse && !z.multicluster }

// contains reports whether a name is the zone's or below it.
func (z *clusterZone) contains(q *queryName) bool {
	return q.labels >= z.labels && bytes.Equal(q.from(q.labels-z.labels), z.wire)
}

// leadsToZone reports whether another zone lies below a name, which makes the
// name exist (G8). It is asked for names that do not exist otherwise.
func (z *clusterZone) leadsToZone(q *queryName) bool {
	for _, other := range z.below {
		if other.labels > q.labels && bytes.HasSuffix(other.wire, q.wire[:q.size]) && other.hasLabels(q) {
			return true
		}
	}
	return false
}

// hasLabels reports whether the name, whose bytes the zone's name ends with,
// begins at one of the zone's labels.
func (z *clusterZone) hasLabels(q *queryName) bool {
	at := 0
	for at < len(z.wire)-q.size {
		at += 1 + int(z.wire[at])
	}
	return at == len(z.wire)-q.size
}
