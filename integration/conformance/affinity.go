package conformance

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"signpost/vip/viptest"
)

// stickyFor is the affinity of the tests: long enough for a slow machine to
// come back in time, short enough to be waited for.
const stickyFor = 2 * time.Second

func stickyWorld(endpoints ...string) string {
	lines := []string{
		"service a/web type=NodePort ips=10.96.0.7 ports=one:80/P->30080,two:81/P etp=Local affinity=" + stickyFor.String(),
		"slice s ports=one:8080/P,two:8081/P",
	}
	return strings.Join(append(lines, endpoints...), "\n")
}

// stickyClients are clients of a service with affinity, each to be sent
// several times. Eight addresses outside make chance improbable.
const stickyClients = `
	p7 10.96.0.7:80/P any
	p8 10.96.0.7:80/P any
	n1 10.96.0.7:80/P any
	p7 10.96.0.7:81/P any
	outside/198.18.0.1 10.96.0.7:80/P any
	outside/198.18.0.2 10.96.0.7:80/P any
	outside/198.18.0.3 10.96.0.7:80/P any
	outside/198.18.0.4 10.96.0.7:80/P any
	outside/198.18.0.5 10.96.0.7:80/P any
	outside/198.18.0.6 10.96.0.7:80/P any
	outside/198.18.0.7 10.96.0.7:80/P any
	outside/198.18.0.8 192.168.6.1:30080/P any
	outside/198.18.0.7 192.168.6.1:30080/P any
	outside/198.18.0.6 192.168.6.1:30080/P any`

// affinity follows clients of services with session affinity (P-16): in the
// order in which it would happen to them.
func (r *runner) affinity(t *testing.T) {
	d := r.fresh(t)
	all := []string{"endpoint 172.16.0.1 node=n1", "endpoint 172.16.0.2 node=n1", "endpoint 172.16.0.3 node=n1", "endpoint 172.16.1.1 node=n2"}
	before := feature{world: stickyWorld(all...), packets: stickyClients}
	// One that goes, one that is not ready any more.
	after := feature{world: stickyWorld(all[0], all[1]+" notready", all[3]), packets: stickyClients}
	has, then := mustState(t, before), mustState(t, after)
	clients := mustProbes(t, r, before)
	held := d.apply(t, nil, has)
	for i := range clients { // the policy's own sets hold for those who stick, too
		clients[i].want = viptest.Expect(has, clients[i].Packet)
	}

	first := r.follow(t, "P-16 B35 each client has its endpoint, for each port", clients)
	for range 3 {
		r.stay(t, "the client came back in time", clients, first, nil)
	}
	if !r.suite.Limits.InProcess {
		d.close(t)
		d = r.start(t, node)
		held = d.apply(t, nil, has)
		r.stay(t, "a restart", clients, first, nil)
	}
	d.apply(t, held, then)
	for i := range clients {
		clients[i].want = viptest.Expect(then, clients[i].Packet)
	}
	r.stay(t, "B36 endpoints went", clients, first, func(e netip.AddrPort) bool { return endpointGone(e, clients) })
	if r.suite.Limits.AffinityLingers {
		t.Logf("not tested: clients change when the time is up: %s keeps them longer", d.backend.Name())
		return
	}
	r.changes(t, "the time is up", clients)
}

// endpointGone reports whether none of the clients may use an endpoint now.
func endpointGone(e netip.AddrPort, clients []probe) bool {
	return !slices.ContainsFunc(clients, func(p probe) bool { return slices.Contains(p.want.Endpoints, e) })
}

// stuck is an endpoint that a client had, and when at the latest.
type stuck struct {
	endpoint netip.AddrPort
	since    time.Time
}

// follow sends each client's packet and returns what it got, by its number.
func (r *runner) follow(t *testing.T, when string, clients []probe) map[int]stuck {
	t.Helper()
	got := make([]stuck, len(clients))
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i, p := range clients {
		all.Go(func() error {
			asked := time.Now()
			e := r.reach(t, p)
			got[i] = stuck{e, asked}
			if !slices.Contains(p.want.Endpoints, e) {
				t.Errorf("%s: %s reached %s, want one of %v", when, p.Packet, e, p.want.Endpoints)
			}
			return nil
		})
	}
	_ = all.Wait()
	byNumber := make(map[int]stuck, len(got))
	for i, s := range got {
		byNumber[i] = s
	}
	return byNumber
}

// stay checks that all clients have the endpoint that they had, unless it is
// gone or the machine was so slow that their time was up.
func (r *runner) stay(t *testing.T, when string, clients []probe, had map[int]stuck, gone func(netip.AddrPort) bool) {
	t.Helper()
	for i, now := range r.follow(t, when, clients) {
		before := had[i]
		late := time.Since(before.since) > stickyFor
		had[i] = now
		if late || gone != nil && gone(before.endpoint) {
			continue
		}
		if now.endpoint != before.endpoint {
			t.Errorf("%s: %s reached %s, had %s", when, clients[i].Packet, now.endpoint, before.endpoint)
		}
	}
}

// changes checks that some clients have another endpoint once they stayed away
// for longer than the affinity lasts.
func (r *runner) changes(t *testing.T, when string, clients []probe) {
	t.Helper()
	before := r.follow(t, when, clients)
	const margin = 500 * time.Millisecond
	<-time.After(stickyFor + margin) // nothing tells when the kernel forgets
	for i, now := range r.follow(t, when, clients) {
		if now.endpoint != before[i].endpoint {
			return
		}
	}
	t.Errorf("%s: all %d clients still have the endpoint that they had", when, len(clients))
}
