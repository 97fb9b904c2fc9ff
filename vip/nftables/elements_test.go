package nftables

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

func mustAddr(raw string) netip.Addr {
	a, _ := netip.AddrFromSlice([]byte(raw))
	return a
}

func endpointsOf(numbers ...int) []vip.Endpoint {
	list := make([]vip.Endpoint, len(numbers))
	for i, n := range numbers {
		list[i] = vip.Endpoint{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 80)}
	}
	return list
}

// A walk of random sets of endpoints: each is laid out without gaps, and
// nobody moves who need not.
func TestRelayout(t *testing.T) {
	t.Parallel()
	random := viptest.Rand(t)
	var present []netip.AddrPort
	for range 2000 {
		var numbers []int
		for n := range 12 {
			if random.IntN(3) > 0 {
				numbers = append(numbers, n)
			}
		}
		want := endpointsOf(numbers...)
		next := relayout(present, want)
		for _, e := range want {
			if !slices.Contains(next, e.AddrPort) {
				t.Fatalf("relayout(%v, %v) = %v, without %s", present, want, next, e.AddrPort)
			}
		}
		if len(next) != len(want) {
			t.Fatalf("relayout(%v, %v) = %v", present, want, next)
		}
		for i, ap := range present[:min(len(present), len(next))] {
			if next[i] != ap && slices.Contains(next, ap) {
				t.Fatalf("relayout(%v, %v) = %v: %s moved", present, want, next, ap)
			}
		}
		present = next
	}
}

// An endpoint that goes or comes costs a few elements, however many stay.
func TestRelayoutCost(t *testing.T) {
	t.Parallel()
	all := make([]int, 1000)
	for i := range all {
		all[i] = i
	}
	full := relayout(nil, endpointsOf(all...))
	without := relayout(full, endpointsOf(slices.Delete(slices.Clone(all), 3, 4)...))
	changed := 0
	for i, ap := range without {
		if full[i] != ap {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("one endpoint went: %d others moved, want 1", changed)
	}
	if again := relayout(without, endpointsOf(all...)); !slices.Equal(again[:999], without) {
		t.Error("one endpoint came: others moved")
	}
}

func TestMergePrefixes(t *testing.T) {
	t.Parallel()
	random := viptest.Rand(t)
	address := func() netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(64))}) }
	for range 500 {
		var prefixes []netip.Prefix
		for range random.IntN(8) {
			prefixes = append(prefixes, netip.PrefixFrom(address(), 24+random.IntN(9)).Masked())
		}
		merged := mergePrefixes(prefixes)
		for i, p := range merged {
			for _, q := range merged[i+1:] {
				if p.Overlaps(q) {
					t.Fatalf("mergePrefixes(%v) = %v: %s and %s overlap", prefixes, merged, p, q)
				}
			}
		}
		for range 50 {
			a := address()
			inside := func(p netip.Prefix) bool { return p.Contains(a) }
			if slices.ContainsFunc(prefixes, inside) != slices.ContainsFunc(merged, inside) {
				t.Fatalf("mergePrefixes(%v) = %v: not the same about %s", prefixes, merged, a)
			}
		}
	}
}

func TestInterval(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ prefix, first, last string }{
		{"10.0.0.0/8", "10.0.0.0", "10.255.255.255"},
		{"10.1.2.3/32", "10.1.2.3", "10.1.2.3"},
		{"10.1.2.3/31", "10.1.2.2", "10.1.2.3"},
		{"0.0.0.0/0", "0.0.0.0", "255.255.255.255"},
		{"2001:db8::/33", "2001:db8::", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff"},
		{"2001:db8::1/128", "2001:db8::1", "2001:db8::1"},
	} {
		first, last := interval([]byte("key"), netip.MustParsePrefix(test.prefix))
		if got := fmt.Sprint(first[:3], mustAddr(first[3:]), last[:3], mustAddr(last[3:])); got != fmt.Sprint("key", test.first, "key", test.last) {
			t.Errorf("interval(%s) = %s", test.prefix, got)
		}
	}
}

// Numbers of endpoints are unique even where digests collide, which among
// 200,000 endpoints some do.
func TestEndpointNumbers(t *testing.T) {
	t.Parallel()
	const many = 200_000
	list := make([]vip.Endpoint, many)
	for i := range list {
		list[i].AddrPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80)
	}
	numbers := endpointNumbers(list)
	seen, collisions := make(map[uint32]bool, many), 0
	for i, n := range numbers {
		if seen[n] {
			t.Fatalf("endpoint %d has the number of another one", i)
		}
		seen[n] = true
		if alone := endpointNumbers(list[i : i+1]); alone[0] != n {
			collisions++
		}
	}
	if collisions == 0 || collisions > 20 {
		t.Errorf("%d endpoints have another number than they would have alone", collisions)
	}
}

// randomServer makes a virtual server that a plan could have.
func randomServer(random *rand.Rand) *vip.VirtualServer {
	v6 := random.IntN(2) == 0
	address := func(n int) netip.Addr {
		if v6 {
			return netip.MustParseAddr(fmt.Sprintf("fd00::%x", n+1))
		}
		return netip.AddrFrom4([4]byte{10, 0, 0, byte(n + 1)})
	}
	protocol := []discovery.Protocol{discovery.TCP, discovery.UDP, discovery.SCTP}[random.IntN(3)]
	v := &vip.VirtualServer{Frontend: vip.Frontend{Addr: address(200 + random.IntN(6)), Port: uint16(80 + random.IntN(2)), Protocol: protocol}}
	if random.IntN(3) == 0 {
		v.Frontend, v.Kind = vip.NodePortFrontend(v6, uint16(30000+random.IntN(2)), protocol), vip.KindNodePort
	}
	for source := range v.Routes {
		v.Routes[source] = vip.Route{Set: vip.Set(random.IntN(2)), SNAT: random.IntN(2) == 0, Empty: vip.Verdict(random.IntN(2))}
	}
	for n := range random.IntN(5) {
		e := vip.Endpoint{AddrPort: netip.AddrPortFrom(address(n), 8080), Local: random.IntN(2) == 0, Unplaced: random.IntN(4) == 0}
		v.Cluster = append(v.Cluster, e)
		if e.Local {
			v.Local = append(v.Local, e)
		}
	}
	if random.IntN(4) == 0 {
		v.Affinity = 3600e9
	}
	if random.IntN(3) == 0 {
		v.Restricted = true
		for n := range random.IntN(3) {
			v.SourceRanges = append(v.SourceRanges, netip.PrefixFrom(address(n*16), address(0).BitLen()-random.IntN(4)).Masked())
		}
	}
	return v
}

// What is written is what is read, for every element of every kind.
func TestDecode(t *testing.T) {
	t.Parallel()
	random := viptest.Rand(t)
	for range 500 {
		v := randomServer(random)
		e := entryFor(v, nil)
		own, shared := e.elements()
		for _, want := range append(own, shared...) {
			raw := want.netlink()
			if raw.VerdictData != nil {
				raw.Val = encodedVerdict(t, raw.VerdictData)
			}
			if got := decode(want.set, &raw); got != want {
				t.Fatalf("decoding %s: got %+v, want %+v", want.describe(), got, want)
			}
		}
		for _, want := range own {
			if f, ok := want.frontend(); !ok || f != v.Frontend {
				t.Fatalf("%s: belongs to %s, want %s", want.describe(), f, v.Frontend)
			}
		}
	}
}

// encodedVerdict is a verdict as the kernel dumps it.
func encodedVerdict(t testing.TB, v *expr.Verdict) []byte {
	t.Helper()
	raw, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_VERDICT_CODE, Data: []byte{0xff, 0xff, 0xff, 0xfc}},
		{Type: unix.NFTA_VERDICT_CHAIN, Data: []byte(v.Chain + "\x00")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Whatever a kernel answers, reading it does no harm.
func FuzzDecode(f *testing.F) {
	f.Add(0, []byte("\x0a\x60\x00\x07\x06\x00\x00\x00\x00\x50\x00\x00"), []byte{}, []byte("value"))
	f.Add(1, []byte{}, []byte{}, []byte{})
	f.Fuzz(func(_ *testing.T, number int, key, last, value []byte) {
		s := allSets[uint(number)%uint(len(allSets))]
		e := decode(s, &nft.SetElement{Key: key, KeyEnd: last, Val: value})
		found := newContents()
		if frontend, ok := e.frontend(); ok {
			found.entry(frontend).own = append(found.entry(frontend).own, e)
		}
		found.order()
	})
}
