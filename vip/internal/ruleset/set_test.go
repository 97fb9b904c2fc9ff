package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip/viptest"
)

func mustAddr(raw string) netip.Addr {
	a, _ := netip.AddrFromSlice([]byte(raw))
	return a
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
		merged := MergePrefixes(prefixes)
		for i, p := range merged {
			for _, q := range merged[i+1:] {
				if p.Overlaps(q) {
					t.Fatalf("MergePrefixes(%v) = %v: %s and %s overlap", prefixes, merged, p, q)
				}
			}
		}
		for range 50 {
			a := address()
			inside := func(p netip.Prefix) bool { return p.Contains(a) }
			if slices.ContainsFunc(prefixes, inside) != slices.ContainsFunc(merged, inside) {
				t.Fatalf("MergePrefixes(%v) = %v: not the same about %s", prefixes, merged, a)
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
		first, last := Interval([]byte("key"), netip.MustParsePrefix(test.prefix))
		if got := fmt.Sprint(first[:3], mustAddr(first[3:]), last[:3], mustAddr(last[3:])); got != fmt.Sprint("key", test.first, "key", test.last) {
			t.Errorf("interval(%s) = %s", test.prefix, got)
		}
	}
}

// testSets has one of each kind.
var testSets = []*Set{
	{Name: "set", Key: []nft.SetDatatype{nft.TypeIPAddr}},
	{Name: "ranges", Key: []nft.SetDatatype{nft.TypeInetService, nft.TypeIPAddr}, Intervals: true},
	{Name: "verdicts", Key: []nft.SetDatatype{nft.TypeIPAddr}, Data: []nft.SetDatatype{nft.TypeVerdict}},
	{Name: "map", Key: []nft.SetDatatype{nft.TypeIPAddr}, Data: []nft.SetDatatype{nft.TypeIPAddr, nft.TypeInetService}},
}

// What is written is what is read, for an element of every kind.
func TestDecode(t *testing.T) {
	t.Parallel()
	for _, want := range []Element{
		{Set: testSets[0], Key: "abcd"},
		{Set: testSets[1], Key: "ab\x00\x00cdef", Last: "ab\x00\x00cdeg"},
		{Set: testSets[2], Key: "abcd", Chain: "somewhere"},
		{Set: testSets[3], Key: "abcd", Value: "efghij\x00\x00"},
	} {
		raw := want.netlink()
		if raw.VerdictData != nil {
			raw.Val = encodedVerdict(t, raw.VerdictData)
		}
		if got := decode(want.Set, &raw); got != want {
			t.Errorf("decoding an element of set %q: got %+v, want %+v", want.Set.Name, got, want)
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
	f.Add(0, []byte("\x0a\x60\x00\x07"), []byte{}, []byte("value"))
	f.Add(2, []byte{}, []byte{}, []byte{})
	f.Fuzz(func(_ *testing.T, number int, key, last, value []byte) {
		_ = decode(testSets[uint(number)%uint(len(testSets))], &nft.SetElement{Key: key, KeyEnd: last, Val: value})
	})
}
