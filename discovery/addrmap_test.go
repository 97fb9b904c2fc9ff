package discovery

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var compareAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// FuzzAddrMap runs a program of three-byte steps (what, address, value)
// against a plain Go map.
func FuzzAddrMap(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 2, 2, 1, 1, 0})
	f.Add([]byte{0, 200, 1, 0, 201, 2, 0, 90, 3, 1, 201, 0, 1, 200, 0})
	f.Fuzz(func(t *testing.T, program []byte) {
		m, oracle := AddrMap[int]{}, map[netip.Addr]int{}
		start, oracleStart := m, maps.Clone(oracle)
		for step := 0; len(program) >= 3; step++ {
			a, value := fuzzAddr(program[1]), 1+int(program[2]%3)
			before, oracleBefore := m, maps.Clone(oracle)
			if program[0]%3 == 1 {
				m = m.Delete(a)
				delete(oracle, a.Unmap())
			} else {
				m = m.Set(a, value)
				oracle[a.Unmap()] = value
			}
			program = program[3:]
			checkAddrMap(t, before, oracleBefore)
			checkAddrMap(t, m, oracle)
			checkDiffAddrs(t, before, m, oracleBefore, oracle)
			if step%5 == 4 { // and over several steps at once
				checkDiffAddrs(t, start, m, oracleStart, oracle)
				start, oracleStart = m, maps.Clone(oracle)
			}
		}
	})
}

// fuzzAddr spreads few addresses over both families so that they share
// prefixes of many lengths; some are the IPv4-mapped form of another one.
func fuzzAddr(b byte) netip.Addr {
	low := []byte{0x00, 0x01, 0x10, 0xff}[b%4]
	high := []byte{0x0a, 0x1a}[b/4%2]
	four := [4]byte{high, b / 8 % 2, low, b / 16 % 4}
	switch b / 64 {
	case 0, 1:
		return netip.AddrFrom4(four)
	case 2:
		return netip.AddrFrom16(netip.AddrFrom4(four).As16())
	default:
		return netip.AddrFrom16([16]byte{0: 0xfd, 7: high, 14: low, 15: b / 16 % 4})
	}
}

func checkAddrMap(t *testing.T, m AddrMap[int], oracle map[netip.Addr]int) {
	t.Helper()
	var order []netip.Addr
	got := map[netip.Addr]int{}
	for a, v := range m.All() {
		order, got[a] = append(order, a), v
	}
	if !maps.Equal(got, oracle) || m.Len() != len(oracle) {
		t.Fatalf("All: %s, Len %d, want %d", cmp.Diff(oracle, got, compareAddr), m.Len(), len(oracle))
	}
	if !slices.IsSortedFunc(order, netip.Addr.Compare) {
		t.Fatalf("All is not in order: %v", order)
	}
	for b := range 256 {
		a := fuzzAddr(byte(b))
		v, ok := m.Get(a)
		want, exists := oracle[a.Unmap()]
		if v != want || ok != exists {
			t.Fatalf("Get(%v) = %v, %v; want %v, %v", a, v, ok, want, exists)
		}
		checkCovers(t, m, oracle, a.Unmap())
	}
}

func checkCovers(t *testing.T, m AddrMap[int], oracle map[netip.Addr]int, a netip.Addr) {
	t.Helper()
	for length := 0; length <= a.BitLen(); length += 4 {
		p := netip.PrefixFrom(a, length)
		want := false
		for member := range oracle {
			want = want || p.Contains(member)
		}
		if got := m.Covers(p); got != want {
			t.Fatalf("Covers(%v) = %v, want %v", p, got, want)
		}
	}
}

func checkDiffAddrs(t *testing.T, before, after AddrMap[int], oldOracle, oracle map[netip.Addr]int) {
	t.Helper()
	want := map[netip.Addr]change{}
	for a, now := range oracle {
		if was := oldOracle[a]; was != now {
			want[a] = change{was, now}
		}
	}
	for a, was := range oldOracle {
		if _, exists := oracle[a]; !exists {
			want[a] = change{was, 0}
		}
	}
	var order []netip.Addr
	got := map[netip.Addr]change{}
	DiffAddrs(before, after, func(a netip.Addr, was, now int) {
		order, got[a] = append(order, a), change{was, now}
	})
	if diff := cmp.Diff(want, got, compareAddr); diff != "" || len(order) != len(want) {
		t.Fatalf("DiffAddrs (%d calls):\n%s", len(order), diff)
	}
	if !slices.IsSortedFunc(order, netip.Addr.Compare) {
		t.Fatalf("DiffAddrs is not in order: %v", order)
	}
}

func TestAddrMapOddInput(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("fe80::1")
	m := AddrMap[int]{}.Set(v4, 4).Set(v6.WithZone("eth0"), 6)
	if v, ok := m.Get(v6); !ok || v != 6 {
		t.Errorf("an IPv6 zone counts: Get = %v, %v", v, ok)
	}
	if m.Set(netip.Addr{}, 1).Len() != 2 || m.Delete(netip.Addr{}).Len() != 2 {
		t.Error("the invalid address changes the map")
	}
	if _, ok := m.Get(netip.Addr{}); ok {
		t.Error("the invalid address has a value")
	}
	for prefix, want := range map[string]bool{
		"192.0.2.0/24": true, "192.0.2.16/28": false, "192.0.0.0/18": true, // 18 is taken as 16
		"::ffff:192.0.2.0/120": true, "::ffff:192.0.3.0/120": false, "0.0.0.0/0": true, "::/0": true, "fd00::/8": false,
	} {
		if got := m.Covers(netip.MustParsePrefix(prefix)); got != want {
			t.Errorf("Covers(%s) = %v, want %v", prefix, got, want)
		}
	}
	if m.Covers(netip.Prefix{}) {
		t.Error("the invalid prefix is covered")
	}
	for range m.All() {
		break // an early end is no panic
	}
}
