package viptest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"signpost/discovery"
	"signpost/vip"
)

// Churn makes a random cluster and changes it step by step. It is small and
// crowded: names, addresses and ports repeat, so that services meet, vanish
// and come back changed; some of what it makes is malformed.
type Churn struct {
	Store  *discovery.Store
	random *rand.Rand
}

// NewChurn returns an empty, synced cluster.
func NewChurn(random *rand.Rand) *Churn {
	c := &Churn{Store: discovery.NewStore(), random: random}
	c.Store.Update((*discovery.Tx).MarkSynced)
	return c
}

// Step changes a few services and returns the snapshot after it.
func (c *Churn) Step() *discovery.Snapshot {
	return c.Store.Update(func(tx *discovery.Tx) {
		for range 1 + c.random.IntN(4) {
			k := discovery.Key{Namespace: pick(c, "default", "kube-system"), Name: fmt.Sprintf("s%d", c.random.IntN(12))}
			old, exists := c.Store.Current().Services.Get(k)
			switch {
			case exists && c.oneIn(4):
				tx.DeleteService(k)
			case exists && c.oneIn(2):
				s := *old
				s.Slices = c.slices(s.Ports)
				tx.PutService(&s)
			default:
				tx.PutService(c.service(k))
			}
		}
	})
}

// Empty deletes all services and returns the snapshot after it.
func (c *Churn) Empty() *discovery.Snapshot {
	return c.Store.Update(func(tx *discovery.Tx) {
		for k := range c.Store.Current().Services.All() {
			tx.DeleteService(k)
		}
	})
}

// Node returns a random node of the cluster.
func (c *Churn) Node() *vip.Node {
	n := &vip.Node{
		Name: pick(c, "n1", "n2"), Zone: pick(c, "", "a", "b"),
		Addrs:         []netip.Addr{addr("192.168.6.1"), addr("fd00:6::1")},
		NodePortAddrs: []netip.Addr{addr("192.168.6.1"), addr("fd00:6::1")},
		MasqueradeAll: c.oneIn(4),
		ServiceCIDRs:  []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")},
	}
	if !c.oneIn(3) {
		n.Detector.CIDRs = []netip.Prefix{netip.MustParsePrefix("172.16.0.0/16"), netip.MustParsePrefix("fd00:16::/64")}
	}
	return n
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func pick[T any](c *Churn, choices ...T) T { return choices[c.random.IntN(len(choices))] }

func (c *Churn) oneIn(n int) bool { return c.random.IntN(n) == 0 }

func (c *Churn) service(k discovery.Key) *discovery.Service {
	s := &discovery.Service{
		Key: k, UID: fmt.Sprint(c.random.IntN(3)), Created: time.Unix(int64(c.random.IntN(3))*1000, 0).UTC(),
		Type:           pick(c, discovery.TypeClusterIP, discovery.TypeNodePort, discovery.TypeLoadBalancer),
		InternalPolicy: pick(c, discovery.PolicyCluster, discovery.PolicyCluster, discovery.PolicyLocal),
		ExternalPolicy: pick(c, discovery.PolicyCluster, discovery.PolicyLocal),
		ClusterIPs:     []netip.Addr{addr(fmt.Sprintf("10.96.0.%d", 1+c.random.IntN(20)))},
	}
	if c.oneIn(3) {
		s.ClusterIPs = append(s.ClusterIPs, addr(fmt.Sprintf("fd00:96::%d", 1+c.random.IntN(9))))
	}
	for i := range c.random.IntN(3) {
		s.Ports = append(s.Ports, discovery.Port{
			Name: fmt.Sprintf("p%d", i), Protocol: pick(c, discovery.TCP, discovery.UDP, discovery.SCTP),
			Port: uint16(80 + c.random.IntN(3)), NodePort: uint16(30000 + c.random.IntN(5)),
		})
	}
	c.external(s)
	c.malformed(s)
	s.Slices = c.slices(s.Ports)
	return s
}

func (c *Churn) external(s *discovery.Service) {
	if c.oneIn(3) {
		s.ExternalIPs = []netip.Addr{addr(fmt.Sprintf("198.51.100.%d", 1+c.random.IntN(3)))}
	}
	if s.Type == discovery.TypeLoadBalancer {
		s.LoadBalancerIPs = []netip.Addr{addr(fmt.Sprintf("203.0.113.%d", 1+c.random.IntN(3))), addr("2001:db8::1")}
		s.HealthCheckNodePort = uint16(31000 + c.random.IntN(2))
		s.SourceRangesSet = c.oneIn(2)
		s.SourceRanges = pick(c, nil, []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, []netip.Prefix{netip.MustParsePrefix("192.168.6.0/24")})
	}
	if c.oneIn(4) {
		s.Affinity = discovery.Affinity{ClientIP: true, Timeout: pick(c, 0, time.Minute, -time.Second)}
	}
}

// malformed breaks one thing, sometimes: what no validation should have let
// through must do no harm (X10).
func (c *Churn) malformed(s *discovery.Service) {
	if !c.oneIn(4) {
		return
	}
	switch c.random.IntN(7) {
	case 0:
		s.ClusterIPs = []netip.Addr{{}, netip.IPv4Unspecified(), addr("::ffff:10.96.0.9")}
	case 1:
		s.Ports = append(s.Ports, discovery.Port{Name: "zero"}, discovery.Port{Port: 80, Protocol: 77})
	case 2:
		s.ExternalIPs = []netip.Addr{{}, addr("127.0.0.1"), addr("10.96.0.1"), addr("192.168.6.1"), addr("224.0.0.1")}
	case 3:
		s.SourceRanges, s.SourceRangesSet = []netip.Prefix{{}, netip.PrefixFrom(addr("10.0.0.1"), 33)}, true
	case 4:
		s.Annotations = map[string]string{vip.SchedulerAnnotation: "rr\n-j ACCEPT"}
	case 5:
		s.Ports = append(s.Ports, discovery.Port{Name: "x\n-j ACCEPT", Port: 81})
	default:
		s.Kind, s.ClusterIPs = discovery.Headless, nil
	}
}

func (c *Churn) slices(ports []discovery.Port) []*discovery.Slice {
	var list []*discovery.Slice
	for i := range c.random.IntN(3) {
		slice := &discovery.Slice{Name: fmt.Sprintf("slice%d", i)}
		for _, p := range ports {
			slice.Ports = append(slice.Ports, discovery.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: uint16(8080 + c.random.IntN(2))})
		}
		base := pick(c, "172.16.0.", "172.16.0.", "fd00:16::")
		for range c.random.IntN(5) {
			slice.Endpoints = append(slice.Endpoints, c.endpoint(addr(base+fmt.Sprint(1+c.random.IntN(9)))))
		}
		list = append(list, slice)
	}
	return list
}

func (c *Churn) endpoint(a netip.Addr) discovery.Endpoint {
	e := discovery.Endpoint{Addr: a, Node: pick(c, "n1", "n2", ""), Ready: true, Serving: true}
	switch c.random.IntN(4) {
	case 0:
		e.Ready, e.Terminating = false, true
	case 1:
		e.Ready, e.Serving = false, false
	}
	if c.oneIn(2) {
		e.ForZones, e.ForNodes = []string{pick(c, "a", "b")}, pick(c, nil, []string{"n1"})
	}
	return e
}
