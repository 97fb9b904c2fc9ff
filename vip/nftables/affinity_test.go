package nftables

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	nft "github.com/google/nftables"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
	"signpost/vip/viptest"
)

const stickyWorld = nodeLine + `
service a/sticky ips=10.96.0.11 ports=80 affinity=1h
slice s ports=8080
endpoint 172.16.0.1 node=n1
`

// remembered lists the clients in the affinity set.
func remembered(t *testing.T, b *Backend) []string {
	t.Helper()
	all, err := b.kernel.Remembered(t.Context(), setsOf[ruleset.IPv4].affinity)
	if err != nil {
		t.Fatal(err)
	}
	var clients []string
	for _, e := range all {
		clients = append(clients, netip.AddrFrom4([4]byte([]byte(e.Key[:4]))).String())
	}
	slices.Sort(clients)
	return clients
}

// sendTo does what packets do: a client is remembered with an endpoint.
func sendTo(t *testing.T, client string, f vip.Frontend, endpoint string) {
	t.Helper()
	number := endpointNumbers([]vip.Endpoint{{AddrPort: netip.MustParseAddrPort(endpoint)}})[0]
	key := slices.Concat(netip.MustParseAddr(client).AsSlice(), frontendKey(f), ruleset.AppendNumber(nil, number))
	conn := mustConn(t)
	set, err := conn.GetSetByName(&nft.Table{Name: tableName, Family: nft.TableFamilyINet}, setsOf[ruleset.IPv4].affinity.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetAddElements(set, []nft.SetElement{{Key: key, Timeout: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	mustFlush(t, conn)
}

// TestAffinityForgets is P-16: an endpoint that goes and comes back does not get
// back the clients that it had. Others keep theirs, over a restart too.
func TestAffinityForgets(t *testing.T) {
	viptest.InNamespace(t)
	const second = "endpoint 172.16.0.2 node=n2\n"
	both, one := worldOf(t, stickyWorld+second), worldOf(t, stickyWorld)
	first := []string{"172.16.9.1"}
	f := vip.Frontend{Addr: netip.MustParseAddr("10.96.0.11"), Port: 80}
	for _, tt := range []struct {
		name        string
		leave, come func(b *Backend)
		want        []string
	}{
		{"the endpoint goes", func(b *Backend) { mustApply(t, b, both, one) }, func(b *Backend) { mustApply(t, b, one, both) }, first},
		{"it goes while nobody watches", func(*Backend) { mustApply(t, newBackend(t), nil, one) }, func(b *Backend) { mustApply(t, b, nil, both) }, first},
		{"the service goes", func(b *Backend) { mustApply(t, b, both, vip.NewState(both.Node())) }, func(b *Backend) { mustApply(t, b, vip.NewState(both.Node()), both) }, nil},
	} {
		b := newBackend(t)
		mustApply(t, b, nil, both)
		sendTo(t, "172.16.9.1", f, "172.16.0.1:8080")
		sendTo(t, "172.16.9.2", f, "172.16.0.2:8080")
		mustApply(t, newBackend(t), nil, both)
		if got := remembered(t, b); len(got) != 2 {
			t.Fatalf("after a restart: %v", got)
		}
		tt.leave(b)
		tt.come(b)
		if got := remembered(t, b); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v are remembered, want %v", tt.name, got, tt.want)
		}
		if err := b.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
