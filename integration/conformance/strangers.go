package conformance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/viptest"
)

// strangers has other programs' objects beside the dataplane's: a table with a
// chain in the same hook and a set, an address, a route. Whatever the backend
// does, they stay (contract, point 7; B62, B66).
func (r *runner) strangers(t *testing.T) {
	d := r.fresh(t)
	remove := r.invite(t)
	defer remove()
	before := r.listStrangers(t)
	if len(before) < 4 {
		t.Fatalf("only %v are there", before)
	}
	random := viptest.Rand(t)
	churn := viptest.NewChurn(random)
	at := churn.Node()
	var want, held *vip.State
	for range 5 {
		want = vip.Planner{}.Plan(churn.Step(), at)
		held = d.apply(t, held, want)
	}
	d.apply(t, nil, want)
	if now := r.listStrangers(t); !slices.Equal(now, before) {
		t.Errorf("beside the dataplane: %v, before %v", now, before)
	}
	d.cleanup(t)
	if now := r.listStrangers(t); !slices.Equal(now, before) {
		t.Errorf("after cleanup: %v, before %v", now, before)
	}
}

var strangerAddr = netip.MustParseAddr("192.0.2.77")

// invite makes the strangers' objects and returns what removes them.
func (r *runner) invite(t *testing.T) (remove func()) {
	t.Helper()
	host := &net.IPNet{IP: strangerAddr.AsSlice(), Mask: net.CIDRMask(32, 32)}
	next := &net.IPNet{IP: strangerAddr.Next().AsSlice(), Mask: net.CIDRMask(32, 32)}
	table := &nft.Table{Name: "stranger", Family: nft.TableFamilyINet}
	err := r.site.lab.RunIn(node, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return errors.Join(strangeTable(table), netlink.AddrAdd(lo, &netlink.Addr{IPNet: host}),
			netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: next, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Protocol: unix.RTPROT_STATIC, Scope: netlink.SCOPE_HOST}))
	})
	if err != nil {
		t.Fatalf("making others' objects: %v", err)
	}
	return func() {
		err := r.site.lab.RunIn(node, func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			conn, err := nft.New()
			if err != nil {
				return err
			}
			conn.DelTable(table)
			return errors.Join(conn.Flush(), netlink.AddrDel(lo, &netlink.Addr{IPNet: host}),
				netlink.RouteDel(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: next, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}))
		})
		if err != nil {
			t.Errorf("removing others' objects: %v", err)
		}
	}
}

func strangeTable(table *nft.Table) error {
	conn, err := nft.New()
	if err != nil {
		return err
	}
	conn.AddTable(table)
	set := &nft.Set{Name: "addresses", Table: table, KeyType: nft.TypeIPAddr}
	if err := conn.AddSet(set, []nft.SetElement{{Key: strangerAddr.AsSlice()}}); err != nil {
		return err
	}
	chain := conn.AddChain(&nft.Chain{
		Name: "nat-prerouting", Table: table, Type: nft.ChainTypeNAT,
		Hooknum: nft.ChainHookPrerouting, Priority: nft.ChainPriorityNATDest,
	})
	conn.AddRule(&nft.Rule{
		Table: table, Chain: chain, Exprs: []expr.Any{&expr.Counter{}},
		UserData: userdata.AppendString(nil, userdata.TypeComment, "a stranger's"),
	})
	return conn.Flush()
}

// listStrangers lists what is left of the strangers' objects.
func (r *runner) listStrangers(t *testing.T) []string {
	t.Helper()
	var list []string
	err := r.site.lab.RunIn(node, func() error {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_LOCAL}, netlink.RT_FILTER_TABLE)
		for _, route := range routes {
			if route.Dst != nil && strings.HasPrefix(route.Dst.String(), "192.0.2.") {
				list = append(list, fmt.Sprint("route ", route.Dst, route.Protocol))
			}
		}
		rules, tableErr := listTable()
		list = append(list, rules...)
		return errors.Join(err, tableErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func listTable() ([]string, error) {
	conn, err := nft.New()
	if err != nil {
		return nil, err
	}
	table := &nft.Table{Name: "stranger", Family: nft.TableFamilyINet}
	rules, err := conn.GetRules(table, &nft.Chain{Name: "nat-prerouting", Table: table})
	if err != nil {
		return nil, err
	}
	var list []string
	for _, rule := range rules {
		comment, _ := userdata.GetString(rule.UserData, userdata.TypeComment)
		list = append(list, fmt.Sprintf("rule %q", comment))
	}
	set, err := conn.GetSetByName(table, "addresses")
	if err != nil {
		return nil, err
	}
	elements, err := conn.GetSetElements(set)
	for _, e := range elements {
		list = append(list, fmt.Sprintf("element %x", e.Key))
	}
	return list, err
}
