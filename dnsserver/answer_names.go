package dnsserver

import (
	"github.com/miekg/dns"

	"signpost/discovery"
)

// serviceName is a service's name in presentation format, relative to a zone.
func serviceName(k discovery.Key) string { return k.Name + "." + k.Namespace + ".svc." }

// name is the server's name, relative to the zone.
func (n nameserver) name() string {
	if n.service == nil {
		return "ns.dns."
	}
	return serviceName(n.service.key)
}

// serversOf returns the names that a zone's NS records give. Services have no
// names of their own in a multi-cluster zone.
func (v *view) serversOf(z *clusterZone) []nameserver {
	if z.multicluster {
		return []nameserver{{v4: v.v4, v6: v.v6}}
	}
	return v.servers
}

// zoneName is the zone's name as the owner spells it.
func (w recordWriter) zoneName() string {
	if w.zone.labels == 0 {
		return "."
	}
	starts := dns.Split(w.owner)
	if len(starts) < w.zone.labels {
		return w.zone.name
	}
	return w.owner[starts[len(starts)-w.zone.labels]:]
}

// suffix is what makes a relative name one in the zone: the zone's name as the
// owner spells it if the owner lies there, else as configured. The root adds
// nothing.
func (w recordWriter) suffix(z *clusterZone) string {
	switch {
	case z.labels == 0:
		return ""
	case z == w.zone:
		return w.zoneName()
	default:
		return z.name
	}
}

// presentation writes a relative name in wire form, whose labels are host
// names, in presentation format.
func presentation(wire string) string {
	text := make([]byte, 0, len(wire)+1)
	for at := 0; at < len(wire); at += 1 + int(wire[at]) {
		text = append(text, wire[at+1:at+1+int(wire[at])]...)
		text = append(text, '.')
	}
	return string(text)
}
