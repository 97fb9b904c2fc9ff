package allocator_test

import (
	"fmt"
	"net/netip"

	"signpost/discovery/allocator"
)

func Example() {
	a, err := allocator.New(allocator.Config{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	results := a.Allocate([]allocator.Request{
		{Owner: "default/web", Families: []allocator.Family{allocator.IPv4}},
		{Owner: "kube-system/kube-dns", Families: []allocator.Family{allocator.IPv4}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}},
		{Owner: "default/late", Families: []allocator.Family{allocator.IPv4}, ClusterIPs: []netip.Addr{netip.MustParseAddr("192.0.2.7")}},
	})
	fmt.Println(len(results[0].Assignment.ClusterIPs), results[1].Assignment.ClusterIPs)
	fmt.Println(results[2].Errors[0])
	// Output:
	// 1 [10.96.0.10]
	// spec.clusterIPs[0]: Invalid value: "192.0.2.7": failed to allocate IP 192.0.2.7: the provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/12
}
