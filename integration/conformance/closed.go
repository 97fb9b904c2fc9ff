package conformance

import "testing"

// closedPort is F-27: what an endpoint's host says of a port on which nobody
// listens gets to the client, as if the service's address had said it.
func (r *runner) closedPort(t *testing.T) {
	d := r.fresh(t)
	f := feature{
		world: `
		service a/web type=NodePort ips=10.96.0.7 ports=80/P->30080
		slice s ports=9999/P
		endpoint 172.16.0.1 node=n1`,
		packets: `
		p3      10.96.0.7:80/P       refused
		p1      10.96.0.7:80/P       refused
		n1      10.96.0.7:80/P       refused
		outside 10.96.0.7:80/P       refused
		outside 192.168.6.1:30080/P  refused`,
	}
	d.apply(t, nil, mustState(t, f))
	r.check(t, "F-27", mustProbes(t, r, f))
}
