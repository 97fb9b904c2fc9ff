package nftables

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	nft "github.com/google/nftables"
	"github.com/vishvananda/netns"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
	"signpost/vip/viptest"
)

const (
	nodeLine = "node n1 addrs=192.168.6.1,fd00:6::1 nodeports=192.168.6.1,fd00:6::1 pods=172.16.0.0/16,fd00:16::/64 services=10.96.0.0/16,fd00:96::/112\n"

	smallWorld = nodeLine + `
service a/web ips=10.96.0.7 ports=80
slice s ports=8080
endpoint 172.16.0.1 node=n1
endpoint 172.16.0.2 node=n2
`
	// largeWorld has one of each kind.
	largeWorld = nodeLine + `
service a/web ips=10.96.0.7,fd00:96::7 ports=http:80,dns:53/UDP
slice s ports=http:8080,dns:5353/UDP
endpoint 172.16.0.1 node=n1
endpoint 172.16.0.2 node=n2
endpoint 172.16.0.3
slice t ports=http:8080,dns:5353/UDP
endpoint fd00:16::1 node=n1
service a/open type=LoadBalancer ips=10.96.0.8 ports=80->30080 lb=203.0.113.1 external=198.51.100.1 etp=Local
slice s ports=8080
endpoint 172.16.0.1 node=n1
endpoint 172.16.0.2 node=n2
service a/ranged type=LoadBalancer ips=10.96.0.9 ports=80->30081 lb=203.0.113.2 ranges=203.0.113.0/24,203.0.113.7/32
slice s ports=8080
endpoint 172.16.0.1 node=n1
service a/closed type=LoadBalancer ips=10.96.0.10 ports=80 lb=203.0.113.3 ranges=
slice s ports=8080
endpoint 172.16.0.1 node=n1
service a/sticky ips=10.96.0.11 ports=80 affinity=1h
slice s ports=8080
endpoint 172.16.0.1 node=n1
endpoint 172.16.0.2 node=n2
service a/empty ips=10.96.0.12 ports=80
service a/elsewhere ips=10.96.0.13 ports=80 itp=Local
slice s ports=8080
endpoint 172.16.0.2 node=n2
`
)

func worldOf(t testing.TB, text string) *vip.State {
	t.Helper()
	world, err := viptest.ParseWorld(text)
	if err != nil {
		t.Fatal(err)
	}
	return vip.Planner{}.Plan(world.Snapshot, world.Node)
}

func mustConn(t testing.TB) *nft.Conn {
	t.Helper()
	conn, err := nft.New()
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func mustFlush(t testing.TB, conn *nft.Conn) {
	t.Helper()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// mustLook returns what the kernel holds, in words: chains with what their
// rules say, elements of sets. The order of endpoints, which means nothing, is
// left out.
func mustLook(t testing.TB) string {
	t.Helper()
	k, err := ruleset.Open(tableName, allSets)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	found, usable, err := look(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if !usable {
		return "no table"
	}
	return found.String()
}

// String lists chains and elements, sorted.
func (c *contents) String() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c.chains)) {
		lines = append(lines, "chain "+name)
		for _, comment := range c.chains[name] {
			lines = append(lines, "    "+comment)
		}
	}
	var elements []string
	for _, e := range c.entries {
		for _, own := range e.own {
			elements = append(elements, describeElement(own))
		}
	}
	for s := range c.shared {
		elements = append(elements, describeElement(ruleset.Element{Set: s.Set, Key: s.Key}))
	}
	slices.Sort(elements)
	return strings.Join(append(lines, elements...), "\n") + "\n"
}

// describeElement shows an element to people.
func describeElement(e ruleset.Element) string {
	f := e.Set.Family
	s := setsOf[f]
	key := fmt.Sprintf("%x", e.Key)
	if frontend, ok := frontendIn(e); ok {
		key = frontend.String()
	} else if n := f.AddrLen(); len(e.Key)%n == 0 {
		key = fmt.Sprint(mustAddr(e.Key[:n]))
	}
	value := e.Chain
	if ap, ok := parseEndpoint(f, e.Value); ok {
		value = ap.String()
	}
	if e.Set == s.ranges {
		n := f.AddrLen()
		value = fmt.Sprintf("%s to %s", mustAddr(e.Key[len(e.Key)-n:]), mustAddr(e.Last[len(e.Last)-n:]))
	}
	return strings.TrimSuffix(fmt.Sprintf("%s: %s -> %s", e.Set.Name, key, value), " -> ")
}

// inAnotherNamespace runs f in a network namespace of its own. The test is in
// one already, and on a thread of its own.
func inAnotherNamespace(t testing.TB, f func()) {
	t.Helper()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	other, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(netns.Set(home), home.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	}()
	f()
}
