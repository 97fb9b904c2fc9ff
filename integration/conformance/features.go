package conformance

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"signpost/vip"
	"signpost/vip/viptest"
)

// features sends the packets of the table: from each world to the next, as a
// running program would.
func (r *runner) features(t *testing.T) {
	d := r.fresh(t)
	var have *vip.State
	for _, f := range table() {
		t.Run(f.name, func(t *testing.T) {
			want, probes := mustState(t, f), mustProbes(t, r, f)
			before := have
			have = nil // unknown, should apply fail
			have = d.apply(t, before, want)
			for i := range probes {
				if err := probes[i].agree(want, d.limits); err != nil {
					t.Fatal(err)
				}
			}
			r.check(t, "sent", severalTimes(probes))
			if t.Failed() {
				t.Logf("the state:\n%s", want)
			}
		})
	}
}

// timesEach is how often each packet of the table is sent: an endpoint is chosen
// at random.
const timesEach = 3

// severalTimes repeats all but those that nobody answers, which take long.
func severalTimes(probes []probe) []probe {
	var list []probe
	for _, p := range probes {
		list = append(list, p)
		if p.want.Action != viptest.Drop {
			list = append(list, slices.Repeat([]probe{p}, timesEach-1)...)
		}
	}
	return list
}

// agree compares the table's outcome with the model's, for the source that the
// node can see: without a detector nobody is a pod (P-20).
func (p *probe) agree(s *vip.State, limits Limits) error {
	detector := s.Node().Detector
	if p.Source == vip.FromPod && detector.None() {
		p.Source = vip.FromOutside
	}
	model := viptest.Expect(s, p.Packet)
	slices.SortFunc(model.Endpoints, netip.AddrPort.Compare)
	if fmt.Sprint(model) != fmt.Sprint(p.want) {
		return fmt.Errorf("expecting of %s: the table says %s, the model %s", p.Packet, p.want, model)
	}
	if p.Source == vip.FromPod && detector.InterfacePrefix != "" && limits.NoInterfaces {
		p.Source = vip.FromOutside
		p.want = viptest.Expect(s, p.Packet)
	}
	return nil
}
