package endpoints

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// overload is how much more than its share an endpoint may have to carry
// before hints do more harm than good.
const overload = 0.20

// zoneShares returns each zone's part of the cluster's CPUs, counting nodes
// that are ready and carry workloads. It is nil where that is not known: a
// node without a zone or CPUs, or fewer than two zones.
func zoneShares(nodes map[string]*corev1.Node) map[string]float64 {
	cpus, total := map[string]int64{}, int64(0)
	for _, node := range nodes {
		if node == nil || controlPlane(node) || !nodeReady(node) {
			continue
		}
		zone, cpu := node.Labels[corev1.LabelTopologyZone], node.Status.Allocatable.Cpu().MilliValue()
		if zone == "" || cpu <= 0 {
			return nil
		}
		cpus[zone] += cpu
		total += cpu
	}
	if len(cpus) < 2 {
		return nil
	}
	shares := make(map[string]float64, len(cpus))
	for zone, cpu := range cpus {
		shares[zone] = float64(cpu) / float64(total)
	}
	return shares
}

func controlPlane(node *corev1.Node) bool {
	_, current := node.Labels["node-role.kubernetes.io/control-plane"]
	_, former := node.Labels["node-role.kubernetes.io/master"]
	return current || former
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// proportionalHints divides the endpoints among the zones by their shares: in
// its own zone where that can be, lent to a poorer one where not. It gives no
// hints at all if that would overload a zone, if there are fewer endpoints than
// zones, or if an endpoint's zone is unknown.
func proportionalHints(endpoints []*discoveryv1.Endpoint, shares map[string]float64) {
	if len(shares) == 0 || len(endpoints) < len(shares) {
		return
	}
	if slices.ContainsFunc(endpoints, func(ep *discoveryv1.Endpoint) bool { return value(ep.Zone) == "" }) {
		return
	}
	d := newDivision(endpoints, shares)
	if d == nil {
		return
	}
	d.placeStrangers()
	d.balance()
	for _, zone := range d.zones {
		for _, ep := range d.held[zone] {
			ep.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
		}
	}
}

// division is who serves which zone.
type division struct {
	zones     []string // in order
	desired   map[string]float64
	minimum   map[string]int
	held      map[string][]*discoveryv1.Endpoint
	strangers []*discoveryv1.Endpoint // their zone takes no part
}

// newDivision starts with every endpoint in its own zone. It is nil if the
// zones' minimums come to more than there is.
func newDivision(endpoints []*discoveryv1.Endpoint, shares map[string]float64) *division {
	d := &division{
		zones: slices.Sorted(maps.Keys(shares)), desired: map[string]float64{}, minimum: map[string]int{},
		held: map[string][]*discoveryv1.Endpoint{},
	}
	left := len(endpoints)
	for _, zone := range d.zones {
		d.desired[zone] = shares[zone] * float64(len(endpoints))
		d.minimum[zone] = int(math.Ceil(d.desired[zone] / (1 + overload)))
		left -= d.minimum[zone]
	}
	if left < 0 {
		return nil
	}
	for _, ep := range endpoints {
		if zone := *ep.Zone; shares[zone] > 0 {
			d.held[zone] = append(d.held[zone], ep)
		} else {
			d.strangers = append(d.strangers, ep)
		}
	}
	return d
}

// surplus is how far a zone is over what it should have.
func (d *division) surplus(zone string) float64 { return float64(len(d.held[zone])) - d.desired[zone] }

func (d *division) bySurplus(a, b string) int {
	switch left, right := d.surplus(a), d.surplus(b); {
	case left < right:
		return -1
	case left > right:
		return 1
	}
	return 0
}

// placeStrangers gives endpoints of other zones to the zones that lack most.
func (d *division) placeStrangers() {
	for _, ep := range d.strangers {
		poorest := slices.MinFunc(d.zones, d.bySurplus)
		d.held[poorest] = append(d.held[poorest], ep)
	}
}

// balance lends endpoints of the richest zones to those below their minimum.
// As the minimums come to no more than there is, the richest has one to spare.
func (d *division) balance() {
	for _, zone := range d.zones {
		for len(d.held[zone]) < d.minimum[zone] {
			richest := d.richest()
			if richest == "" {
				return
			}
			last := len(d.held[richest]) - 1
			d.held[zone] = append(d.held[zone], d.held[richest][last])
			d.held[richest] = d.held[richest][:last]
		}
	}
}

// richest is the zone with the greatest surplus among those above their minimum.
func (d *division) richest() string {
	best := ""
	for _, zone := range d.zones {
		above := len(d.held[zone]) > d.minimum[zone]
		if above && (best == "" || d.bySurplus(zone, best) > 0) {
			best = zone
		}
	}
	return best
}
