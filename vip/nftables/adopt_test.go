package nftables

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	nft "github.com/google/nftables"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/internal/ruleset"
	"signpost/vip/viptest"
)

// freshLook is what the kernel holds when a state is applied to nothing.
func freshLook(t *testing.T, want *vip.State) string {
	t.Helper()
	b := newBackend(t)
	if err := b.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustApply(t, b, nil, want)
	text := mustLook(t)
	if err := b.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return text
}

// damages are what a table can look like when signpost finds it.
var damages = []struct {
	name string
	do   func(conn *nft.Conn, table *nft.Table)
}{
	{name: "as it was left", do: func(*nft.Conn, *nft.Table) {}},
	{name: "X02 gone", do: func(conn *nft.Conn, table *nft.Table) { conn.DelTable(table) }},
	{name: "X03 a base chain without rules", do: func(conn *nft.Conn, table *nft.Table) {
		conn.FlushChain(&nft.Chain{Name: preroutingChain, Table: table})
	}},
	{name: "X03 a base chain with a rule more", do: func(conn *nft.Conn, table *nft.Table) {
		conn.AddRule(&nft.Rule{Table: table, Chain: &nft.Chain{Name: postroutingChain, Table: table}, Exprs: one(ruleset.Drop())})
	}},
	{name: "X03 a class chain without rules", do: func(conn *nft.Conn, table *nft.Table) {
		conn.FlushChain(&nft.Chain{Name: "ip4-cluster-2", Table: table})
	}},
	{name: "X03 a map without elements", do: func(conn *nft.Conn, table *nft.Table) {
		conn.FlushSet(&nft.Set{Name: setsOf[ruleset.IPv4].services.Name, Table: table})
	}},
	{name: "X03 endpoints without elements", do: func(conn *nft.Conn, table *nft.Table) {
		conn.FlushSet(&nft.Set{Name: setsOf[ruleset.IPv4].endpoints.Name, Table: table})
	}},
	{name: "X03 shared sets without elements", do: func(conn *nft.Conn, table *nft.Table) {
		conn.FlushSet(&nft.Set{Name: setsOf[ruleset.IPv4].hairpin.Name, Table: table})
		conn.FlushSet(&nft.Set{Name: setsOf[ruleset.IPv4].clusterIPs.Name, Table: table})
		conn.FlushSet(&nft.Set{Name: setsOf[ruleset.IPv4].nodePortAddrs.Name, Table: table})
	}},
	{name: "X14 source ranges of somebody's, an address too many", do: func(conn *nft.Conn, table *nft.Table) {
		conn.FlushSet(&nft.Set{Name: setsOf[ruleset.IPv4].ranges.Name, Table: table, Interval: true})
		addresses := &nft.Set{Name: setsOf[ruleset.IPv4].nodePortAddrs.Name, Table: table, KeyType: nft.TypeIPAddr}
		_ = conn.SetAddElements(addresses, []nft.SetElement{{Key: netip.MustParseAddr("192.0.2.1").AsSlice()}})
	}},
	{name: "X14 a chain of another version", do: func(conn *nft.Conn, table *nft.Table) {
		old := conn.AddChain(&nft.Chain{Name: "old", Table: table})
		older := conn.AddChain(&nft.Chain{Name: "older", Table: table})
		conn.AddRule(&nft.Rule{Table: table, Chain: old, Exprs: one(ruleset.Jump(older.Name))})
	}},
	{name: "X14 a set of another version", do: func(conn *nft.Conn, table *nft.Table) {
		_ = conn.AddSet(&nft.Set{Name: "old", Table: table, KeyType: nft.TypeMark}, nil)
	}},
	{name: "X14 a table of another version", do: func(conn *nft.Conn, table *nft.Table) {
		conn.DelTable(table)
		table = conn.AddTable(table)
		_ = conn.AddSet(&nft.Set{Name: setsOf[ruleset.IPv4].services.Name, Table: table, KeyType: nft.TypeMark}, nil)
		conn.AddChain(&nft.Chain{
			Name: preroutingChain, Table: table, Type: nft.ChainTypeFilter,
			Hooknum: nft.ChainHookPrerouting, Priority: nft.ChainPriorityRaw,
		})
	}},
	{name: "X03 asleep", do: func(conn *nft.Conn, table *nft.Table) {
		const dormant = 1 // NFT_TABLE_F_DORMANT
		conn.AddTable(&nft.Table{Name: table.Name, Family: table.Family, Flags: dormant})
	}},
}

// A new process finds a table in whatever condition, and afterwards it is as if
// it had been made anew (X02, X03, X13, X14); so it does when it is to hold
// something else, and on the next look it writes nothing.
func TestAdopt(t *testing.T) {
	viptest.InNamespace(t)
	small, large := worldOf(t, smallWorld), worldOf(t, largeWorld)
	looks := map[*vip.State]string{small: freshLook(t, small), large: freshLook(t, large)}
	for _, damage := range damages {
		for _, want := range []*vip.State{large, small} {
			mustApply(t, newBackend(t), nil, large)
			conn := mustConn(t)
			damage.do(conn, &nft.Table{Name: tableName, Family: nft.TableFamilyINet})
			mustFlush(t, conn)

			b := newBackend(t)
			mustApply(t, b, nil, want)
			if got := mustLook(t); got != looks[want] {
				t.Errorf("%s: the kernel holds\n%s\nwant\n%s", damage.name, got, looks[want])
			}
			before := mustGeneration(t)
			mustApply(t, b, nil, want)
			mustApply(t, newBackend(t), nil, want)
			if now := mustGeneration(t); now != before {
				t.Errorf("%s: looking again wrote %d times", damage.name, now-before)
			}
		}
	}
}

func mustGeneration(t testing.TB) uint32 {
	t.Helper()
	k, err := ruleset.Open(tableName, allSets)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	g, err := k.Generation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// P-25 B59 B60: what the kernel refuses costs that frontend alone; the others
// are there, what was there before stays, and all is well once it is right.
func TestFaultIsolation(t *testing.T) {
	viptest.InNamespace(t)
	good := worldOf(t, largeWorld)
	f := vip.Frontend{Addr: netip.MustParseAddr("10.96.0.99"), Port: 80}
	broken := &vip.VirtualServer{ // endpoints of the other family: their addresses do not fit
		Frontend: f, Owner: discovery.Key{Namespace: "a", Name: "broken"},
		Cluster: []vip.Endpoint{{AddrPort: netip.MustParseAddrPort("[fd00::1]:80")}},
	}
	both := withServer(good, broken)
	b := newBackend(t)
	for _, have := range []*vip.State{nil, good} {
		err := b.Apply(t.Context(), have, both)
		var partial *vip.PartialError
		if !errors.As(err, &partial) || len(partial.Failed) != 1 || partial.Failed[f] == nil {
			t.Fatalf("applying: %v, want a partial error about %s", err, f)
		}
		if now := mustLook(t); now != mustLookOf(t, good) {
			t.Errorf("the others: the kernel holds\n%s", now)
		}
	}
	repaired := *broken
	repaired.Cluster = []vip.Endpoint{{AddrPort: netip.MustParseAddrPort("172.16.0.1:80")}}
	mustApply(t, b, good, withServer(good, &repaired))
	if err := b.Apply(t.Context(), withServer(good, &repaired), both); !isPartial(err) {
		t.Errorf("broken again: got %v, want a partial error", err)
	}
	mustApply(t, b, good, good)
	if now := mustLook(t); now != mustLookOf(t, good) {
		t.Errorf("without the broken one: the kernel holds\n%s", now)
	}
}

// mustLookOf is freshLook beside what is there now.
func mustLookOf(t *testing.T, want *vip.State) string {
	t.Helper()
	text := ""
	inAnotherNamespace(t, func() { text = freshLook(t, want) })
	return text
}

// withServer adds a service with one virtual server to a state.
func withServer(s *vip.State, v *vip.VirtualServer) *vip.State {
	plans := []*vip.ServicePlan{{Owner: v.Owner, Servers: []*vip.VirtualServer{v}}}
	for _, p := range s.Plans() {
		plans = append(plans, p)
	}
	return vip.NewState(s.Node(), plans...)
}

// B66: tables of others, whatever is in them, are neither read nor changed.
func TestForeignTables(t *testing.T) {
	viptest.InNamespace(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("the nft program is not installed; TestAdopt and TestWatch have foreign tables without it")
	}
	const foreign = `
table inet foreign {
	set typed { typeof ip daddr . tcp dport; flags interval; elements = { 10.0.0.0/8 . 80-90 } }
	set seen { typeof ip saddr . ct original ip daddr; flags dynamic,timeout; timeout 1h; }
	map verdicts { typeof ip daddr . meta l4proto : verdict; elements = { 10.96.0.7 . tcp : drop } }
	map numbered { typeof ip daddr . numgen random mod 4294967295 : ip daddr; elements = { 10.96.0.7 . 1 : 10.0.0.1 } }
	counter hits { packets 0 bytes 0 }
	quota most { over 25 mbytes used 0 bytes }
	chain nat-prerouting { type filter hook prerouting priority raw; ip daddr . tcp dport @typed counter name hits; }
}
table ip signpost {
	chain services { ip daddr 10.96.0.7 drop; }
}
table ip6 kube-proxy {
	map service-ips { type ipv6_addr . inet_proto . inet_service : verdict; }
}
`
	nftables := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "nft", args...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("nft %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	nftables(foreign, "-f", "-")
	before := nftables("", "list", "ruleset")
	b := newBackend(t)
	small, large := worldOf(t, smallWorld), worldOf(t, largeWorld)
	mustApply(t, b, nil, small)
	mustApply(t, b, small, large)
	mustApply(t, newBackend(t), nil, large)
	if got, want := mustLook(t), mustLookOf(t, large); got != want {
		t.Errorf("the kernel holds\n%s\nwant\n%s", got, want)
	}
	for range 2 { // B65
		if err := b.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := nftables("", "list", "ruleset"); after != before {
		t.Errorf("of others' tables is left\n%s\nwant\n%s", after, before)
	}
}

// X20: services and endpoints that come and go leave nothing behind.
func TestFlapping(t *testing.T) {
	viptest.InNamespace(t)
	large, b := worldOf(t, largeWorld), newBackend(t)
	mustApply(t, b, nil, large)
	before, have := mustLook(t), large
	for i := range 100 {
		text := largeWorld + fmt.Sprintf("service a/flapping ips=10.96.0.50 ports=80 affinity=%dm\nslice s ports=8080\nendpoint 172.16.0.%d node=n1\n", i%7, i%5+1)
		if i%3 == 0 {
			text = strings.Replace(largeWorld, "endpoint 172.16.0.2 node=n2\n", "", 1+i%2)
		}
		next := worldOf(t, text)
		mustApply(t, b, have, next)
		have = next
	}
	mustApply(t, b, have, large)
	if now := mustLook(t); now != before {
		t.Errorf("after it all the kernel holds\n%s\nbefore\n%s", now, before)
	}
}

// X19: a service with 10,000 endpoints, and one with 1,000 addresses.
func TestExtremes(t *testing.T) {
	viptest.InNamespace(t)
	store := discovery.NewStore()
	s := &discovery.Service{
		Key: discovery.Key{Namespace: "a", Name: "many"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.7")},
		Ports: []discovery.Port{{Port: 80}},
	}
	endpoints := func(n int) []*discovery.Slice {
		slice := &discovery.Slice{Ports: []discovery.EndpointPort{{Port: 8080}}}
		for i := range n {
			slice.Endpoints = append(slice.Endpoints, discovery.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 128, byte(i >> 8), byte(i)}), Ready: true, Serving: true})
		}
		return []*discovery.Slice{slice}
	}
	s.Slices = endpoints(10_000)
	wide := &discovery.Service{
		Key: discovery.Key{Namespace: "a", Name: "wide"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.8")},
		Ports: []discovery.Port{{Port: 80}}, Slices: endpoints(10),
	}
	for i := range 1000 {
		wide.ExternalIPs = append(wide.ExternalIPs, netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}))
	}
	full := store.Update(func(tx *discovery.Tx) { tx.PutService(s); tx.PutService(wide) })
	fewer := *s
	fewer.Slices = endpoints(9_999)
	less := store.Update(func(tx *discovery.Tx) { tx.PutService(&fewer) })

	b, planner := newBackend(t), vip.Planner{}
	have := planner.Plan(full, testNode)
	start := time.Now()
	mustApply(t, b, nil, have)
	first := time.Since(start)
	want := planner.Next(have, full, less, testNode)
	start = time.Now()
	mustApply(t, b, have, want)
	change := time.Since(start)
	t.Logf("first sync %s, one endpoint %s", first, change)
	const budget = 10 * time.Second // of a machine that does much else
	if first > budget || change > budget/10 {
		t.Errorf("first sync took %s, one endpoint %s", first, change)
	}
}

// What is too much for one transaction takes several: in the end it is the same.
func TestBatches(t *testing.T) {
	viptest.InNamespace(t)
	small, large := worldOf(t, smallWorld), worldOf(t, largeWorld)
	for _, size := range []int{1, 2, 5} {
		b := newBackend(t)
		b.batch = size
		var have *vip.State
		for _, want := range []*vip.State{small, large, small, large} {
			mustApply(t, b, have, want)
			have = want
			if got, want := mustLook(t), mustLookOf(t, want); got != want {
				t.Errorf("%d frontends at once: the kernel holds\n%s\nwant\n%s", size, got, want)
			}
		}
		if err := b.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// B67: among 10,000 services, one that comes is there at once: the kernel is
// not read for it. (BenchmarkChange has the figures.)
func TestOneOfMany(t *testing.T) {
	viptest.InNamespace(t)
	text := strings.Builder{}
	text.WriteString(nodeLine)
	for i := range 10_000 {
		fmt.Fprintf(&text, "service a/s%d ips=10.96.%d.%d ports=80\nslice s ports=8080\nendpoint 172.16.%d.%d\n", i, 64+i/250, i%250, i/250, i%250)
	}
	world, err := viptest.ParseWorld(text.String())
	if err != nil {
		t.Fatal(err)
	}
	store, planner, b := discovery.NewStore(), vip.Planner{}, newBackend(t)
	before := store.Update(func(tx *discovery.Tx) {
		for _, s := range world.Snapshot.Services.All() {
			tx.PutService(s)
		}
	})
	have := planner.Plan(before, world.Node)
	mustApply(t, b, nil, have)
	fastest := time.Hour // of a few: the machine may be busy with something else
	for i := range 3 {
		after := store.Update(func(tx *discovery.Tx) {
			tx.PutService(&discovery.Service{
				Key:        discovery.Key{Namespace: "a", Name: fmt.Sprint("new", i)},
				ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(7 + i)})}, Ports: []discovery.Port{{Port: 80}},
			})
		})
		want := planner.Next(have, before, after, world.Node)
		start := time.Now()
		mustApply(t, b, have, want)
		fastest = min(fastest, time.Since(start))
		before, have = after, want
	}
	t.Logf("one more service: %s", fastest)
	const limit = 300 * time.Millisecond
	if fastest > limit {
		t.Errorf("one more service among 10,000 took %s, want less than %s", fastest, limit)
	}
}

// X19: 200 addresses for 500 node ports are 700 elements.
func TestNodePortsTimesAddresses(t *testing.T) {
	viptest.InNamespace(t)
	text := strings.TrimSpace(nodeLine)
	for i := range 200 {
		text += fmt.Sprintf(" nodeports=10.9.%d.%d", i/100, i%100)
	}
	for i := range 500 {
		text += fmt.Sprintf("\nservice a/s%d type=NodePort ips=10.96.%d.%d ports=80->%d\nslice s ports=8080\nendpoint 172.16.0.1 node=n1", i, 1+i/250, i%250, 30000+i)
	}
	want := worldOf(t, text)
	mustApply(t, newBackend(t), nil, want)
	held := memory(t, want)
	ports, addresses := 0, 0
	for s := range held.shared {
		if s.Set == setsOf[ruleset.IPv4].nodePortAddrs {
			addresses++
		}
	}
	for f := range held.entries {
		if f.IsNodePort() {
			ports++
		}
	}
	if ports != 500 || addresses != 201 {
		t.Errorf("%d node ports on %d addresses", ports, addresses)
	}
	if got, want := mustLook(t), held.String(); got != want {
		t.Error("the kernel holds something else")
	}
}

// A node's own settings change while it runs: what depends on them follows.
func TestNodeChanges(t *testing.T) {
	viptest.InNamespace(t)
	b := newBackend(t)
	var have *vip.State
	for _, line := range []string{
		nodeLine,
		strings.Replace(nodeLine, "nodeports=192.168.6.1", "nodeports=192.168.7.1", 1),
		strings.Replace(nodeLine, "pods=172.16.0.0/16,", "iface=veth pods=10.0.0.0/8,", 1),
		strings.Replace(nodeLine, "services=10.96.0.0/16", "masquerade-all services=10.96.0.0/12", 1),
		"node n2 addrs=192.168.6.1\n",
	} {
		want := worldOf(t, strings.Replace(largeWorld, nodeLine, line, 1))
		mustApply(t, b, have, want)
		have = want
		if got, want := mustLook(t), mustLookOf(t, want); got != want {
			t.Errorf("node %q: the kernel holds\n%s\nwant\n%s", line, got, want)
		}
	}
}
