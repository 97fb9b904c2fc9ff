package nftables

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/internal/ruleset"
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

// Every element of a server's own is known to be its.
func TestFrontendIn(t *testing.T) {
	t.Parallel()
	random := viptest.Rand(t)
	for range 500 {
		v := randomServer(random)
		own, _ := entryFor(v, nil).elements()
		for _, e := range own {
			if f, ok := frontendIn(e); !ok || f != v.Frontend {
				t.Fatalf("%s: belongs to %s, want %s", describeElement(e), f, v.Frontend)
			}
		}
	}
}

// Whatever a kernel holds, making sense of it does no harm.
func FuzzNote(f *testing.F) {
	f.Add(0, "\x0a\x60\x00\x07\x06\x00\x00\x00\x00\x50\x00\x00", "", "value")
	f.Add(1, "", "", "")
	f.Fuzz(func(_ *testing.T, number int, key, last, value string) {
		found := newContents()
		found.note(ruleset.Element{Set: allSets[uint(number)%uint(len(allSets))], Key: key, Last: last, Value: value})
		found.order()
	})
}
