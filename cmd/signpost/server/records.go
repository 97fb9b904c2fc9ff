package server

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"signpost/cmd/signpost/admin"
	"signpost/discovery"
)

// records lists the records of services. It asks the DNS server itself, over
// TCP, for each name that a service can have: what is shown is what clients
// get, and no second piece of code has to know how a service becomes records.
func (s *Server) records(ctx context.Context, f admin.Filter) ([]admin.Record, error) {
	g := s.current.Load()
	l := &lister{ctx: ctx, seen: map[string]bool{}}
	defer l.close()
	for _, server := range g.config.Servers {
		if server.Cluster == nil {
			continue
		}
		if err := l.connect(s.dns.Addrs(), server.Cluster.DNS.Zones[0]); err != nil {
			return nil, err
		}
		for _, zone := range server.Cluster.DNS.Zones {
			if f == (admin.Filter{}) {
				l.apex(zone)
			}
			for _, service := range chosen(g.visible().Current(), f) {
				l.service(zone, service)
			}
		}
	}
	return l.found, l.err
}

// chosen returns the services that the filter lets through, in order.
func chosen(snapshot *discovery.Snapshot, f admin.Filter) []*discovery.Service {
	var list []*discovery.Service
	for k, s := range snapshot.Services.All() {
		if (f.Namespace == "" || f.Namespace == k.Namespace) && (f.Name == "" || f.Name == k.Name) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *discovery.Service) int { return a.Key.Compare(b.Key) })
	return list
}

// lister collects records. The first error ends the asking.
type lister struct {
	ctx   context.Context //nolint:containedctx // of one listing
	dns   *dnsClient
	found []admin.Record
	seen  map[string]bool
	err   error
}

// connect finds the address where the zone is served.
func (l *lister) connect(addrs []netip.AddrPort, zone string) error {
	for _, addr := range addrs {
		client, err := dialDNS(l.ctx, addr)
		if err != nil {
			continue
		}
		if answer, err := client.ask(zone, "SOA"); err == nil && len(answer) > 0 {
			l.close()
			l.dns = client
			return nil
		}
		client.close()
	}
	return fmt.Errorf("listing records: no listener of this server answers for zone %q", zone)
}

func (l *lister) close() {
	if l.dns != nil {
		l.dns.close()
	}
}

// ask adds the answers to a question, and returns what they point at.
func (l *lister) ask(owner discovery.Key, name string, types ...string) (targets []string) {
	for _, rtype := range types {
		if l.err != nil {
			return nil
		}
		var answers []admin.Record
		answers, l.err = l.dns.ask(name, rtype)
		for _, r := range answers {
			if _, target, found := cut4(r.Data); rtype == "SRV" && found {
				targets = append(targets, target)
			}
			key := r.Owner + " " + r.Type + " " + r.Data
			if !l.seen[key] && ownPointer(owner, r) {
				l.seen[key] = true
				r.ObjectMeta = metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name}
				l.found = append(l.found, r)
			}
		}
	}
	return targets
}

// ownPointer reports whether a PTR record points at the service: one address
// may belong to several.
func ownPointer(owner discovery.Key, r admin.Record) bool {
	return r.Type != "PTR" || strings.Contains("."+r.Data, "."+owner.Name+"."+owner.Namespace+".svc.")
}

// cut4 splits an SRV record's data in front of its fourth field, the target.
func cut4(data string) (rest, target string, found bool) {
	at := strings.LastIndexByte(data, ' ')
	return data[:max(at, 0)], data[at+1:], at > 0
}

// apex lists what a zone has of its own.
func (l *lister) apex(zone string) {
	l.ask(discovery.Key{}, zone, "SOA", "NS")
	if !isReverse(zone) {
		l.ask(discovery.Key{}, "dns-version."+zone, "TXT")
		l.ask(discovery.Key{}, "ns.dns."+zone, "A", "AAAA")
	}
}

// service lists the names of one service: its own, its ports', and those of
// endpoints that its ports' records point at.
func (l *lister) service(zone string, s *discovery.Service) {
	if isReverse(zone) {
		l.pointers(zone, s)
		return
	}
	name := s.Key.Name + "." + s.Key.Namespace + ".svc." + zone
	if s.Kind == discovery.ExternalName {
		l.ask(s.Key, name, "CNAME")
		return
	}
	l.ask(s.Key, name, "A", "AAAA")
	targets := map[string]bool{}
	for _, p := range s.Ports {
		if p.Name == "" {
			continue
		}
		port := "_" + p.Name + "._" + strings.ToLower(p.Protocol.String()) + "." + name
		for _, target := range l.ask(s.Key, port, "SRV") {
			targets[target] = true
		}
	}
	delete(targets, name)
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		l.ask(s.Key, target, "A", "AAAA")
	}
}

// pointers lists the PTR records of a service's addresses in a reverse zone.
func (l *lister) pointers(zone string, s *discovery.Service) {
	addrs := map[netip.Addr]bool{}
	for _, a := range s.ClusterIPs {
		addrs[a] = true
	}
	for _, e := range s.Endpoints {
		addrs[e.Addr] = e.Ready
	}
	ordered := slices.SortedFunc(maps.Keys(addrs), netip.Addr.Compare)
	for _, a := range ordered {
		name := reverseName(a)
		if addrs[a] && strings.HasSuffix(name, "."+strings.TrimPrefix(zone, ".")) {
			l.ask(s.Key, name, "PTR")
		}
	}
}

func isReverse(zone string) bool {
	return strings.HasSuffix(zone, "in-addr.arpa.") || strings.HasSuffix(zone, "ip6.arpa.")
}
