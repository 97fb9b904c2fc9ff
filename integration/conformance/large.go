package conformance

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"signpost/discovery"
)

// large sends what does not fit into one packet: a datagram comes in fragments,
// all but the first of them without ports.
func (r *runner) large(t *testing.T) {
	d := r.fresh(t)
	f := feature{
		world: `
		service a/web type=NodePort ips=10.96.0.7 ports=80/P->30080
		slice s ports=8080/P
		endpoint 172.16.0.1 node=n1`,
		packets: `
		p3      10.96.0.7:80/P       p1
		p1      10.96.0.7:80/P       p1
		n1      10.96.0.7:80/P       p1 +snat
		outside 10.96.0.7:80/P       p1 +snat
		outside 192.168.6.1:30080/P  p1 +snat`,
	}
	d.apply(t, nil, mustState(t, f))
	var probes []probe
	for _, p := range mustProbes(t, r, f) {
		p.text = strings.Repeat("hello ", 1000) + "\n"
		if !r.suite.Limits.TooLarge || !r.refused(t, p) {
			probes = append(probes, p)
		}
	}
	r.check(t, "sent in fragments", probes)
}

// refused reports whether the node refuses to send a datagram of its own, for
// its size.
func (r *runner) refused(t *testing.T, p probe) bool {
	t.Helper()
	if p.host != node || p.To.Protocol != discovery.UDP {
		return false
	}
	_, err := r.site.send(t.Context(), p, r.suite.Patience)
	return errors.Is(err, unix.EMSGSIZE)
}
