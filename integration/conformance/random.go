package conformance

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// mostPackets bounds the packets sent to one random cluster.
const mostPackets = 500

// random follows a random sequence of clusters, with broken objects in them:
// the packets get what the state means, the kernel of a node that followed
// holds what the kernel of one that begins there holds, and a restart
// on the way writes nothing.
func (r *runner) random(t *testing.T) {
	random := viptest.Rand(t)
	churn, d := viptest.NewChurn(random), r.fresh(t)
	clean := r.dump(t, node)
	at := churn.Node()
	var planned, held *vip.State
	var before *discovery.Snapshot
	for step := range r.suite.Steps {
		if random.IntN(6) == 0 {
			at = churn.Node()
		}
		after := churn.Step()
		planned = vip.Planner{}.Next(planned, before, after, at)
		before = after
		held = d.apply(t, held, planned)
		r.check(t, "incremental", r.randomProbes(random, planned))
		r.sameAsFresh(t, planned)
		if step%4 == 3 {
			d, held = r.restart(t, d, planned)
		}
		if t.Failed() {
			t.Fatalf("in this state:\n%s", planned)
		}
	}
	d.cleanup(t)
	if left := r.dump(t, node); left != clean {
		t.Errorf("after cleanup the kernel holds:\n%s\nwant:\n%s", left, clean)
	}
}

// sameAsFresh compares the node's kernel with that of another node, where the
// same state is applied to nothing.
func (r *runner) sameAsFresh(t *testing.T, planned *vip.State) {
	t.Helper()
	if r.suite.Dump == nil {
		return
	}
	other := r.start(t, otherNode)
	other.cleanup(t)
	other.apply(t, nil, planned)
	incremental, fresh := r.dump(t, node), r.dump(t, otherNode)
	other.cleanup(t)
	other.close(t)
	if incremental != fresh {
		t.Errorf("incremental:\n%s\nfresh:\n%s", incremental, fresh)
	}
}

// restart lets a new backend take over, which finds all as it should be.
func (r *runner) restart(t *testing.T, d *driver, planned *vip.State) (*driver, *vip.State) {
	t.Helper()
	d.close(t)
	d = r.start(t, node)
	writes, contents := r.writes(t), r.dump(t, node) // a probe may try a rule, and take it back
	held := d.apply(t, nil, planned)
	if now := r.writes(t); now != writes {
		t.Errorf("a restart wrote to the kernel %d times, want never", now-writes)
	}
	if now := r.dump(t, node); now != contents {
		t.Errorf("after a restart the kernel holds:\n%s\nbefore:\n%s", now, contents)
	}
	return d, held
}

// randomProbes are the packets worth sending that a host of the lab can send,
// some of them if they are many.
func (r *runner) randomProbes(random *rand.Rand, s *vip.State) []probe {
	var list []probe
	for _, packet := range viptest.Packets(s) {
		p := probe{Packet: packet, host: r.site.host[packet.From], want: viptest.Expect(s, packet)}
		noSCTP := r.suite.Limits.NoSCTP && packet.To.Protocol == discovery.SCTP
		if p.host == "" || noSCTP || packet.From == packet.To.Addr || elsewhereItself(s, p) {
			continue
		}
		list = append(list, p)
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(len(list), mostPackets)]
}

// elsewhereItself reports whether a pod that, by the state, is on another node
// might reach itself: its packets would not come by here.
func elsewhereItself(s *vip.State, p probe) bool {
	v := s.Get(p.To)
	if v == nil {
		v = s.Get(vip.NodePortFrontend(p.To.Is6(), p.To.Port, p.To.Protocol))
	}
	if v == nil || !slices.ContainsFunc(p.want.Endpoints, func(e netip.AddrPort) bool { return e.Addr() == p.From }) {
		return false
	}
	return !slices.ContainsFunc(append(slices.Clone(v.Cluster), v.Local...), func(e vip.Endpoint) bool {
		return e.AddrPort.Addr() == p.From && (e.Local || e.Unplaced)
	})
}

// leavesNothing empties a random cluster: what was ours is nobody's again.
func (r *runner) leavesNothing(t *testing.T) {
	random := viptest.Rand(t)
	churn, d := viptest.NewChurn(random), r.fresh(t)
	at := churn.Node()
	var full *vip.State
	for range 8 {
		full = vip.Planner{}.Plan(churn.Step(), at)
	}
	held := d.apply(t, nil, full)
	d.apply(t, held, vip.NewState(&vip.Node{}))
	probes := r.randomProbes(random, full)
	for i := range probes {
		probes[i].want = viptest.Outcome{Action: viptest.Pass}
	}
	r.check(t, "without services", slices.DeleteFunc(probes, func(p probe) bool {
		return r.site.host[p.To.Addr] == "" // of a range that leads nowhere now
	}))
}
