package discovery

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestServiceCIDRs(t *testing.T) {
	t.Parallel()
	store := NewStore()
	put := func(ranges ...string) *Snapshot {
		return store.Update(func(tx *Tx) {
			list := make([]netip.Prefix, 1, 4) // the first is invalid
			for _, r := range ranges {
				list = append(list, netip.MustParsePrefix(r))
			}
			tx.PutServiceCIDRs(list)
		})
	}
	first := put("fd00:96::1/112", "10.96.0.0/12", "10.96.0.0/12")
	if got := fmt.Sprint(first.ServiceCIDRs); got != "[10.96.0.0/12 fd00:96::/112]" {
		t.Errorf("ranges %s: want them sorted, each once, without host bits", got)
	}
	if again := put("10.96.0.0/12", "fd00:96::/112"); again != first {
		t.Error("equal ranges published a revision")
	}
	if less := put("10.96.0.0/12"); less.Revision != first.Revision+1 || len(less.ServiceCIDRs) != 1 || len(first.ServiceCIDRs) != 2 {
		t.Errorf("revision %d with %v, the one before has %v", less.Revision, less.ServiceCIDRs, first.ServiceCIDRs)
	}
	if none := put(); len(none.ServiceCIDRs) != 0 {
		t.Errorf("ranges %v, want none", none.ServiceCIDRs)
	}
}
