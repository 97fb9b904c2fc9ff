package dnsserver

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestQueryNameParse(t *testing.T) {
	t.Parallel()
	label63 := strings.Repeat("a", 63)
	for _, c := range []struct {
		name, in string
		labels   []string // nil: not a name
	}{
		{"root", ".", []string{}},
		{"G4 lower case", "SvC.Cluster.LOCAL.", []string{"svc", "cluster", "local"}},
		{"W27 a dot inside a label", `svc1\.testns.svc.`, []string{"svc1.testns", "svc"}},
		{"W27 any byte", `a\000\255\@.b.`, []string{"a\x00\xff@", "b"}},
		{"W27 an escaped capital", `\065.b.`, []string{"a", "b"}},
		{"longest label", label63 + ".", []string{label63}},
		{"label too long", label63 + "a.", nil},
		{"longest name", strings.Repeat(label63+".", 3) + strings.Repeat("b", 61) + ".", []string{label63, label63, label63, strings.Repeat("b", 61)}},
		{"name too long", strings.Repeat(label63+".", 3) + strings.Repeat("b", 62) + ".", nil},
		{"most labels", strings.Repeat("a.", 127), strings.Split(strings.TrimSuffix(strings.Repeat("a.", 127), "."), ".")},
		{"too many labels", strings.Repeat("a.", 128), nil},
		{"no final dot", "svc", nil},
		{"empty", "", nil},
		{"empty label", "a..b.", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q queryName
			if ok := q.parse(c.in); ok != (c.labels != nil) {
				t.Fatalf("parse(%q): got %v", c.in, ok)
			} else if !ok {
				return
			}
			if q.labels != len(c.labels) {
				t.Fatalf("got %d labels, want %q", q.labels, c.labels)
			}
			for i, want := range c.labels {
				if got := string(q.label(i)); got != want {
					t.Errorf("label %d: got %q, want %q", i, got, want)
				}
			}
		})
	}
}

// referenceLabels splits a name in wire form the obvious way; nil: not a name.
func referenceLabels(wire []byte) [][]byte {
	labels, used := [][]byte{}, 0
	for {
		if len(wire) == 0 || wire[0] > 63 || len(wire) < 1+int(wire[0]) {
			return nil
		}
		n := int(wire[0])
		if used += 1 + n; used > 255 {
			return nil
		}
		if n == 0 {
			return labels
		}
		labels = append(labels, wire[1:1+n])
		wire = wire[1+n:]
	}
}

func FuzzQueryName(f *testing.F) {
	f.Add([]byte("\x03svc\x07CLUSTER\x05local\x00"))
	f.Add([]byte("\x0211\x010\x0296\x0210\x07in-addr\x04arpa\x00"))
	f.Add([]byte("\x01d\x01f\x03ip6\x04arpa\x00"))
	f.Add([]byte("\xc0\x0c"))
	f.Add(append(bytes.Repeat([]byte("\x01a"), 127), 0))
	f.Fuzz(func(t *testing.T, wire []byte) {
		var q queryName
		labels := referenceLabels(wire)
		if ok := q.read(wire); ok != (labels != nil) {
			t.Fatalf("read: got %v, the reference has %q", ok, labels)
		}
		if labels == nil {
			return
		}
		if q.labels != len(labels) {
			t.Fatalf("got %d labels, want %d", q.labels, len(labels))
		}
		for i, want := range labels {
			if got := q.label(i); string(got) != lowerASCII(want) {
				t.Fatalf("label %d: got %q, want %q", i, got, want)
			}
		}
		checkPresentation(t, wire, &q)
		checkReverse(t, &q)
		checkLookup(t, &q)
	})
}

func lowerASCII(b []byte) string {
	lower := bytes.Clone(b)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

// checkPresentation checks that the way by the library's presentation format
// leads to the same name.
func checkPresentation(t *testing.T, wire []byte, q *queryName) {
	t.Helper()
	text, _, err := dns.UnpackDomainName(wire, 0)
	if err != nil {
		return
	}
	var again queryName
	if !again.parse(text) || !bytes.Equal(again.wire[:again.size], q.wire[:q.size]) {
		t.Fatalf("%q: got %q by presentation format, want %q", text, again.wire[:again.size], q.wire[:q.size])
	}
}

// checkReverse checks that a name that is read as a network is the one zone of
// that network.
func checkReverse(t *testing.T, q *queryName) {
	t.Helper()
	prefix, ok := parseReverse(q)
	if !ok {
		return
	}
	text, _, err := dns.UnpackDomainName(q.wire[:q.size], 0)
	if zones := ReverseZones(prefix); err != nil || len(zones) != 1 || zones[0] != text {
		t.Fatalf("%s is %s, whose zones are %q", text, prefix, zones)
	}
}

var fuzzedView = newView(newViewConfig(ClusterConfig{
	Zones: []string{"cluster.local", "in-addr.arpa", "ip6.arpa", "."}, Pods: PodsInsecure, TTL: DefaultTTL,
}), 1).advance(newRandomWorld(7).step())

// checkLookup checks that any name can be looked up and answered.
func checkLookup(t *testing.T, q *queryName) {
	t.Helper()
	text, _, err := dns.UnpackDomainName(q.wire[:q.size], 0)
	if err != nil {
		return
	}
	for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV, dns.TypePTR, dns.TypeANY, dns.TypeSOA} {
		m := new(dns.Msg).SetQuestion(text, qtype)
		if r := fuzzedView.lookup(q, qtype); r.outcome != alias && r.outcome != outside {
			fuzzedView.fill(m, text, r)
		}
		if _, err := m.Pack(); err != nil {
			t.Fatalf("packing the answer for %q: %v", text, err)
		}
	}
}

func TestDashedLabel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, addr, want string }{
		{"H7 IPv4", "10.244.0.3", "10-244-0-3"},
		{"H8 IPv6", "fd00:244::5", "fd00-244--5"},
		{"B13 leading zeros", "::5", "0--5"},
		{"B13 trailing zeros", "fd00:244::", "fd00-244--0"},
		{"B13 nothing but zeros", "::", "0--0"},
		{"a zero in front that is written", "0:1:2:3:4:5:6:7", "0-1-2-3-4-5-6-7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := netip.MustParseAddr(c.addr)
			got := dashedLabel(addr)
			if got != c.want || !isHostLabel(got) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if back, ok := parseDashed([]byte(got)); !ok || back != addr {
				t.Errorf("parsing %q: got %v, %v", got, back, ok)
			}
		})
	}
}

// referenceDashed parses a dashed label by way of the standard library.
func referenceDashed(label string) (netip.Addr, bool) {
	if strings.ContainsAny(label, ".:%") || label != strings.ToLower(label) {
		return netip.Addr{}, false
	}
	if a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", ".")); err == nil && a.Is4() {
		return a, true
	}
	a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", ":"))
	return a, err == nil && a.Is6() && !a.Is4In6()
}

func FuzzParseDashed(f *testing.F) {
	for _, label := range []string{"10-0-0-1", "010-0-0-1", "fd00--1", "--", "0--0", "1-2-3-4-5-6-7-8", "1-2-3-4-5-6-7--", "--ffff-1-2", "1---2", "-1", "1-", "--1--"} {
		f.Add(label)
	}
	f.Fuzz(func(t *testing.T, label string) {
		got, ok := parseDashed([]byte(label))
		want, valid := referenceDashed(label)
		if ok != valid || ok && got != want {
			t.Errorf("%q: got %v, %v, want %v, %v", label, got, ok, want, valid)
		}
	})
}

func TestIsHostLabel(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]bool{
		"web-0": true, "Web": true, "0": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "a-": false, "a.b": false, "a_b": false, "ä": false, strings.Repeat("a", 64): false,
	} {
		if got := isHostLabel(label); got != want {
			t.Errorf("%q: got %v (B26)", label, got)
		}
	}
}
