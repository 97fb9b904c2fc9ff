package dnsserver

import (
	"maps"
	"net/netip"
	"slices"

	"signpost/discovery"
)

// view is what the cluster zones answer at one revision. It is immutable: the
// query path reads it without a lock.
type view struct {
	conf *viewConfig
	snap *discovery.Snapshot

	services discovery.Map[*answers]
	reverse  discovery.AddrMap[pointerList]
	servers  []nameserver // never empty
	v4, v6   []byte       // addresses of ns.dns
	serial   uint32
}

// viewConfig is the part of the configuration that views are made by. It
// never changes.
type viewConfig struct {
	ClusterConfig

	zones      []*clusterZone // most labels first
	compile    compileOptions
	namespaces map[string]bool // nil: all
}

func newViewConfig(c ClusterConfig) *viewConfig {
	conf := &viewConfig{
		ClusterConfig: c,
		zones:         newZones(c),
		compile: compileOptions{
			endpointPodNames: c.EndpointPodNames, noEndpoints: c.NoEndpoints,
			ignoreEmptyService: c.IgnoreEmptyService, literalCNAME: c.LiteralCNAME,
		},
	}
	for _, ns := range c.Namespaces {
		if conf.namespaces == nil {
			conf.namespaces = map[string]bool{}
		}
		conf.namespaces[ns] = true
	}
	return conf
}

// newView returns the view of the empty snapshot.
func newView(conf *viewConfig, serial uint32) *view {
	v := &view{conf: conf, snap: &discovery.Snapshot{}, serial: serial}
	v.findServers()
	return v
}

// advance returns the view of a later snapshot, at a cost that follows what
// changed between the two. The serial goes up by one if any answer differs
// (G7), by none if not.
func (v *view) advance(snap *discovery.Snapshot) *view {
	if snap == v.snap {
		return v
	}
	u := viewUpdate{
		before: v, conf: v.conf, snap: snap,
		services: v.services.Edit(), reverse: v.reverse, differs: v.snap.Synced != snap.Synced,
	}
	u.updateServices()
	u.updateNamespaces()
	u.updatePods()
	next := &view{conf: v.conf, snap: snap, services: u.services.Map(), reverse: u.reverse, serial: v.serial}
	next.findServers()
	if u.differs || !equalServers(v.servers, next.servers) {
		next.serial = nextSerial(v.serial)
	}
	return next
}

// viewUpdate is one step from a view to the next.
type viewUpdate struct {
	before   *view
	conf     *viewConfig
	snap     *discovery.Snapshot
	services *discovery.Editor[*answers]
	reverse  discovery.AddrMap[pointerList]
	differs  bool
}

// updateServices compiles the services that changed.
func (u *viewUpdate) updateServices() {
	discovery.Diff(u.before.snap.Services, u.snap.Services, func(k discovery.Key, _, now *discovery.Service) {
		u.updateService(k, now)
		u.touchNamespace(k.Namespace)
	})
}

// updateService brings one service's answers up to date; s is nil if it is
// gone. Equal answers keep their pointer.
func (u *viewUpdate) updateService(k discovery.Key, s *discovery.Service) {
	before, _ := u.services.Get(k)
	var after *answers
	if s != nil && u.conf.serves(u.snap, s) {
		after = compile(u.conf.compile, s)
	}
	if before.equal(after) {
		return
	}
	u.differs = true
	u.reverse = repoint(u.reverse, before, after)
	if after == nil {
		u.services.Delete(k)
		return
	}
	u.services.Set(k, after)
}

// touchNamespace notices whether a namespace came or went with an object in it.
func (u *viewUpdate) touchNamespace(name string) {
	if u.before.snap.HasNamespace(name) != u.snap.HasNamespace(name) {
		u.differs = true
	}
}

// updateNamespaces notices namespaces that came, went, or became visible or
// hidden by their labels; the latter takes their services along.
func (u *viewUpdate) updateNamespaces() {
	if !maps.Equal(u.before.snap.Namespaces, u.snap.Namespaces) {
		for ns := range union(u.before.snap.Namespaces, u.snap.Namespaces) {
			u.touchNamespace(ns)
		}
	}
	if u.conf.NamespaceLabels == nil {
		return
	}
	for ns := range union(u.before.snap.NamespaceLabels, u.snap.NamespaceLabels) {
		if u.conf.visible(u.before.snap, ns) == u.conf.visible(u.snap, ns) {
			continue
		}
		u.differs = true
		for name, s := range u.snap.Services.Namespace(ns) {
			u.updateService(discovery.Key{Namespace: ns, Name: name}, s)
		}
	}
}

// updatePods notices pods that came or went as far as names depend on them.
func (u *viewUpdate) updatePods() {
	discovery.Diff(u.before.snap.Pods, u.snap.Pods, func(k discovery.Key, before, now *discovery.Pod) {
		u.touchNamespace(k.Namespace)
		if u.conf.Pods != PodsVerified {
			return
		}
		for _, pod := range []*discovery.Pod{before, now} {
			if pod != nil && !u.samePodNames(pod) {
				u.differs = true
			}
		}
	})
}

// samePodNames reports whether the names of a pod's addresses exist before and
// after alike, be it by another pod.
func (u *viewUpdate) samePodNames(p *discovery.Pod) bool {
	ns := []byte(p.Key.Namespace)
	return !slices.ContainsFunc(p.Addrs, func(a netip.Addr) bool {
		return u.conf.podAt(u.before.snap, a, ns) != u.conf.podAt(u.snap, a, ns)
	})
}

// namesPod reports whether a pod has names of its own (P7).
func (c *viewConfig) namesPod(p *discovery.Pod) bool {
	return p != nil && p.Live() && (c.Labels == nil || c.Labels(p.Labels))
}

// serves reports whether the filters let a service through.
func (c *viewConfig) serves(snap *discovery.Snapshot, s *discovery.Service) bool {
	return c.visible(snap, s.Key.Namespace) && (c.Labels == nil || c.Labels(s.Labels))
}

// visible reports whether the filters let a namespace through. It does not
// say that the namespace exists.
func (c *viewConfig) visible(snap *discovery.Snapshot, ns string) bool {
	if c.NamespaceLabels != nil {
		return c.NamespaceLabels(snap.NamespaceLabels[ns])
	}
	return c.namespaces == nil || c.namespaces[ns]
}

// union returns the keys of both maps.
func union[V any](a, b map[string]V) map[string]bool {
	keys := make(map[string]bool, len(b))
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}
