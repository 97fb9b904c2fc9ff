package dnsserver

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// naiveZone is every name of the zones with all its records in presentation
// format, written out one after the other from a snapshot: the specification
// of a view, slow and without any of its ideas.
type naiveZone struct {
	records map[string]map[string]bool // name → "TYPE rdata"
}

// newNaiveZone writes out cluster.local., in-addr.arpa. and ip6.arpa., with
// pods verified.
func newNaiveZone(snap *discovery.Snapshot) *naiveZone {
	z := &naiveZone{records: map[string]map[string]bool{}}
	for _, name := range []string{"cluster.local.", "in-addr.arpa.", "ip6.arpa."} {
		z.add(name, "SOA")
		z.add(name, "NS ns.dns.cluster.local.")
	}
	z.add("dns-version.cluster.local.", `TXT "1.1.0"`)
	z.add("ns.dns.cluster.local.", "A 192.0.2.53")
	z.exists("svc.cluster.local.")
	z.exists("pod.cluster.local.")
	for ns := range snap.Namespaces {
		z.addNamespace(ns)
	}
	for k, s := range snap.Services.All() {
		z.addNamespace(k.Namespace)
		z.addService(s)
	}
	for k, p := range snap.Pods.All() {
		z.addNamespace(k.Namespace)
		if p.Terminating || p.Phase == "Succeeded" || p.Phase == "Failed" {
			continue
		}
		for _, a := range p.Addrs {
			z.addAddr(naiveDashed(a)+"."+k.Namespace+".pod.cluster.local.", a)
		}
	}
	return z
}

func (z *naiveZone) add(name, record string) {
	z.exists(name)
	z.records[name][record] = true
}

func (z *naiveZone) exists(name string) {
	if z.records[name] == nil {
		z.records[name] = map[string]bool{}
	}
}

func (z *naiveZone) addNamespace(ns string) {
	z.exists(ns + ".svc.cluster.local.")
	z.exists(ns + ".pod.cluster.local.")
}

func (z *naiveZone) addAddr(name string, a netip.Addr) {
	rtype := "A "
	if a.Is6() {
		rtype = "AAAA "
	}
	z.add(name, rtype+a.String())
}

func (z *naiveZone) addService(s *discovery.Service) {
	own := s.Key.Name + "." + s.Key.Namespace + ".svc.cluster.local."
	switch s.Kind {
	case discovery.ExternalName:
		z.add(own, "CNAME "+s.ExternalName+".")
		return
	case discovery.ClusterIP:
		z.exists(own)
		for _, a := range s.ClusterIPs {
			z.addAddr(own, a)
			z.addPointer(a, own)
		}
		for _, p := range s.Ports {
			record := ""
			if len(s.ClusterIPs) > 0 {
				record = fmt.Sprintf("SRV %d %s", p.Port, own)
			}
			z.addPort(own, p.Name, p.Protocol, record)
		}
	}
	for slice, e := range s.Endpoints {
		if e.Ready {
			z.addEndpoint(s, own, slice, e)
		}
	}
}

func (z *naiveZone) addEndpoint(s *discovery.Service, own string, slice *discovery.Slice, e *discovery.Endpoint) {
	label := strings.ToLower(e.Hostname)
	if label == "" || strings.Contains(label, ".") {
		label = naiveDashed(e.Addr)
	}
	name := label + "." + own
	z.addAddr(name, e.Addr)
	z.addPointer(e.Addr, name)
	if s.Kind == discovery.Headless {
		z.addAddr(own, e.Addr)
	}
	for _, p := range slice.Ports {
		record := fmt.Sprintf("SRV %d %s", p.Port, name)
		z.add(name, record)
		if s.Kind == discovery.Headless {
			z.addPort(own, p.Name, p.Protocol, record)
		}
	}
}

// addPort adds a port's record, which may be empty, where it belongs.
func (z *naiveZone) addPort(own, port string, protocol discovery.Protocol, record string) {
	names := []string{own}
	if port != "" {
		names = append(names, strings.ToLower("_"+port+"._"+protocol.String()+".")+own)
	}
	for _, name := range names {
		z.exists(name)
		if record != "" {
			z.add(name, record)
		}
	}
}

func (z *naiveZone) addPointer(a netip.Addr, name string) {
	reverse, err := dns.ReverseAddr(a.String())
	if err != nil {
		panic(err)
	}
	z.add(reverse, "PTR "+name)
}

func naiveDashed(a netip.Addr) string {
	s := strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
	if strings.HasPrefix(s, "-") {
		s = "0" + s
	}
	if strings.HasSuffix(s, "-") {
		s += "0"
	}
	return s
}

// names returns every name that exists, those above other names included.
func (z *naiveZone) names() []string {
	all := map[string]bool{}
	for name := range z.records {
		for {
			all[name] = true
			_, parent, _ := strings.Cut(name, ".")
			if name == "cluster.local." || name == "in-addr.arpa." || name == "ip6.arpa." || parent == "" {
				break
			}
			name = parent
		}
	}
	list := make([]string, 0, len(all))
	for name := range all {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// lookup returns the outcome and the records, sorted.
func (z *naiveZone) lookup(name, qtype string, existing []string) (outcome, []string) {
	if _, found := slices.BinarySearch(existing, name); !found {
		return missing, nil
	}
	var records []string
	for r := range z.records[name] {
		if rtype, _, _ := strings.Cut(r, " "); rtype == "CNAME" {
			return alias, []string{r}
		} else if rtype == qtype {
			records = append(records, r)
		}
	}
	slices.Sort(records)
	if len(records) == 0 {
		return empty, nil
	}
	return answered, records
}

// flatten writes a view's answer as the naive zone does.
func flatten(v *view, name string, r result) []string {
	if r.outcome != answered && r.outcome != alias {
		return nil
	}
	answer, _ := recordWriter{view: v, owner: name, zone: r.zone}.records(r)
	var records []string
	for _, rr := range answer {
		records = append(records, flattenRecord(rr))
	}
	slices.Sort(records)
	return records
}

func flattenRecord(rr dns.RR) string {
	rdata := strings.TrimPrefix(rr.String(), rr.Header().String())
	switch rr := rr.(type) {
	case *dns.SOA:
		return "SOA"
	case *dns.SRV:
		return fmt.Sprintf("SRV %d %s", rr.Port, rr.Target)
	}
	return dns.TypeToString[rr.Header().Rrtype] + " " + rdata
}
