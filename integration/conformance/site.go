package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"signpost/integration/lab"
	"signpost/integration/lab/echo"
)

// The hosts of the lab, by name. Pods are p1 to p9 on the node under test, and
// q1 and q2 on the other one.
const (
	node      = "n1"
	otherNode = "n2"
	outside   = "outside"
	elsewhere = "elsewhere"

	podsHere, podsThere = 9, 2
)

// Ports on which somebody answers.
var (
	podPorts       = []uint16{8080, 8081}
	elsewherePorts = []uint16{9, 22, 80, 81, 82}
	nodePorts      = []uint16{22} // of the nodes' own servers
)

// site is the lab, and who is where in it.
type site struct {
	lab     *lab.Lab
	host    map[netip.Addr]string // whose address it is
	own     map[string][]netip.Addr
	answers map[netip.AddrPort]bool
	closers []io.Closer
	clients lab.ClientPorts // of TCP and UDP

	sctp      sync.Map // a lock for each two addresses; see alone
	sctpPorts atomic.Uint32
}

func topology() lab.Topology {
	t := lab.Topology{
		Nodes: []lab.Node{
			// The second pair are addresses that no Node object names.
			{Name: node, Addrs: append(both("192.168.6.1", "fd00:6::1"), both("192.168.7.1", "fd00:7::1")...)},
			{Name: otherNode, Addrs: both("192.168.6.2", "fd00:6::2")},
		},
		Outside: []lab.Host{{Name: outside}, {Name: elsewhere}},
	}
	for i := range podsHere {
		t.Pods = append(t.Pods, pod(fmt.Sprintf("p%d", i+1), node, "172.16.0.%d", "fd00:16::%d", i+1))
	}
	for i := range podsThere {
		t.Pods = append(t.Pods, pod(fmt.Sprintf("q%d", i+1), otherNode, "172.16.1.%d", "fd00:16::10%d", i+1))
	}
	for i := range 8 {
		t.Outside[0].Addrs = append(t.Outside[0].Addrs, both(fmt.Sprintf("198.18.0.%d", i+1), fmt.Sprintf("2001:db8:99::%d", i+1))...)
	}
	// Inside of source ranges: see the table of features, and viptest's random worlds.
	t.Outside[0].Addrs = append(t.Outside[0].Addrs, both("203.0.113.0", "2001:db8:1::")...)
	t.Outside[0].Addrs = append(t.Outside[0].Addrs, both("203.0.113.77", "2001:db8:1::77")...)
	t.Outside[0].Addrs = append(t.Outside[0].Addrs, netip.MustParseAddr("192.168.6.0"))
	for i := range 3 {
		t.Outside[1].Addrs = append(t.Outside[1].Addrs, both(fmt.Sprintf("203.0.113.%d", i+1), fmt.Sprintf("2001:db8:1::%d", i+1))...)
		t.Outside[1].Addrs = append(t.Outside[1].Addrs, both(fmt.Sprintf("198.51.100.%d", i+1), fmt.Sprintf("2001:db8:2::%d", i+1))...)
	}
	t.Outside[1].Addrs = append(t.Outside[1].Addrs, netip.MustParseAddr("2001:db8::1"))
	return t
}

func both(v4, v6 string) []netip.Addr {
	return []netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}
}

func pod(name, on, v4, v6 string, i int) lab.Pod {
	return lab.Pod{Name: name, Node: on, Addrs: both(fmt.Sprintf(v4, i), fmt.Sprintf(v6, i)), Ports: podPorts}
}

func newSite(t *testing.T) *site {
	t.Helper()
	built, err := lab.New(t.Context(), topology(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{lab: built, host: map[netip.Addr]string{}, own: map[string][]netip.Addr{}, answers: map[netip.AddrPort]bool{}}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Errorf("closing the lab: %v", err)
		}
	})
	s.list()
	err = errors.Join(
		s.lab.RunIn(lab.Router, routeByNode),
		s.serve(t.Context(), elsewhere, elsewherePorts),
		s.serve(t.Context(), node, nodePorts),
		s.serve(t.Context(), otherNode, nodePorts),
		s.serveSCTP(),
	)
	for _, h := range s.lab.Hosts() {
		err = errors.Join(err, s.lab.RunIn(h, unlimitICMP))
	}
	if err != nil {
		t.Fatalf("preparing the lab: %v", err)
	}
	return s
}

func (s *site) close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, s.lab.Close())...)
}

// list notes who has which address.
func (s *site) list() {
	top := s.lab.Topology
	hosts := append([]lab.Host{}, top.Outside...)
	for _, n := range top.Nodes {
		hosts = append(hosts, lab.Host(n))
	}
	for _, p := range top.Pods {
		hosts = append(hosts, lab.Host{Name: p.Name, Addrs: p.Addrs})
	}
	for _, h := range hosts {
		s.own[h.Name] = h.Addrs
		for _, a := range h.Addrs {
			s.host[a] = h.Name
		}
	}
}

// addrs returns a host's addresses, in order.
func (s *site) addrs(name string) []netip.Addr { return s.own[name] }

// addr returns a host's first address of a family.
func (s *site) addr(name string, v6 bool) netip.Addr {
	list := s.addrs(name)
	if i := slices.IndexFunc(list, func(a netip.Addr) bool { return a.Is6() == v6 }); i >= 0 {
		return list[i]
	}
	return netip.Addr{}
}

// serve starts echo servers on all addresses of a host, which say the host's
// name.
func (s *site) serve(ctx context.Context, name string, ports []uint16) error {
	var ids []echo.Identity
	for _, a := range s.addrs(name) {
		for _, port := range ports {
			ids = append(ids, echo.Identity{Name: name, Addr: netip.AddrPortFrom(a, port)})
			s.answers[netip.AddrPortFrom(a, port)] = true
		}
	}
	return s.lab.RunIn(name, func() error {
		server, err := echo.Start(ctx, echo.Config{Identities: ids, UDP: true})
		if err == nil {
			s.closers = append(s.closers, server)
		}
		return err
	})
}

// routeByNode makes the router send whatever comes from outside (link2) and
// from the other node (link1) to the node under test (link0).
func routeByNode() error {
	const table = 100
	dev, err := netlink.LinkByName("link0")
	if err != nil {
		return fmt.Errorf("finding the link to %q: %w", node, err)
	}
	for _, via := range both("192.168.6.1", "fd00:6::1") {
		family, everything := unix.AF_INET, "0.0.0.0/0"
		if via.Is6() {
			family, everything = unix.AF_INET6, "::/0"
		}
		_, all, err := net.ParseCIDR(everything)
		if err != nil {
			return err
		}
		route := &netlink.Route{LinkIndex: dev.Attrs().Index, Dst: all, Gw: via.AsSlice(), Flags: int(netlink.FLAG_ONLINK), Table: table}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("routing by %s: %w", via, err)
		}
		for _, from := range []string{"link1", "link2"} {
			rule := netlink.NewRule()
			rule.IifName, rule.Table, rule.Family, rule.Priority = from, table, family, table
			if err := netlink.RuleAdd(rule); err != nil {
				return fmt.Errorf("routing what comes from %q: %w", from, err)
			}
		}
	}
	return nil
}

// unlimitICMP lets a host refuse as often as it is asked: the kernel's limits
// are for those who are not being tested.
func unlimitICMP() error {
	for name, value := range map[string]string{
		"ipv4/icmp_ratelimit": "0", "ipv6/icmp/ratelimit": "0",
		"ipv4/icmp_msgs_per_sec": "100000", "ipv4/icmp_msgs_burst": "100000",
	} {
		err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the last two are not everywhere a namespace's own
			return fmt.Errorf("setting net/%s: %w", name, err)
		}
	}
	return nil
}

// forgetFlows empties the node's connection tracking: a client's port may come
// again before the kernel has forgotten what it did with it.
func (s *site) forgetFlows() error {
	return s.lab.RunIn(node, func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
}
