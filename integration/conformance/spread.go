package conformance

import (
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"signpost/vip"
	"signpost/vip/viptest"
)

// spread counts who answers: every endpoint gets about its share (F-01).
func (r *runner) spread(t *testing.T) {
	d := r.fresh(t)
	f := feature{
		world: "service a/web ips=10.96.0.7 ports=80/P" + `
		slice s ports=8080/P
		endpoint 172.16.0.1 node=n1
		endpoint 172.16.0.2 node=n1
		endpoint 172.16.0.3 node=n1
		endpoint 172.16.1.1 node=n2`,
		packets: "p9 10.96.0.7:80/P p1 p2 p3 q1",
	}
	d.apply(t, nil, mustState(t, f))
	for _, p := range mustProbes(t, r, f) {
		const connections, least, most = 160, 15, 90 // of 40; more than five sigma away
		counts := r.count(t, p, connections)
		for _, e := range p.want.Endpoints {
			if n := counts[e]; n < least || n > most {
				t.Errorf("%s: %d of %d connections reached %s", p.Packet, n, connections, e)
			}
		}
	}
}

// count sends one packet many times and counts the endpoints that answer.
func (r *runner) count(t *testing.T, p probe, times int) map[netip.AddrPort]int {
	t.Helper()
	counts, mu, all := map[netip.AddrPort]int{}, sync.Mutex{}, errgroup.Group{}
	all.SetLimit(atOnce)
	for range times {
		all.Go(func() error {
			e := r.reach(t, p)
			mu.Lock()
			defer mu.Unlock()
			counts[e]++
			return nil
		})
	}
	_ = all.Wait()
	return counts
}

// reach sends a packet that has to be forwarded and returns who answered.
func (r *runner) reach(t *testing.T, p probe) netip.AddrPort {
	t.Helper()
	defer r.site.alone(p)()
	got, err := r.site.send(t.Context(), p, r.suite.Patience)
	if err != nil || got.Action != viptest.Forward {
		t.Errorf("sending %s: got %s, %v, want an answer", p.Packet, got, err)
	}
	return got.Endpoint
}

func mustState(t *testing.T, f feature) *vip.State {
	t.Helper()
	s, err := f.state()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustProbes(t *testing.T, r *runner, f feature) []probe {
	t.Helper()
	list, err := f.probes(r.site, r.suite.Limits)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
