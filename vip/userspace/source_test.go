package userspace

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"signpost/discovery"
	"signpost/vip"
)

func restricted(v *vip.VirtualServer, ranges ...string) *vip.VirtualServer {
	v.Restricted = true
	for _, r := range ranges {
		v.SourceRanges = append(v.SourceRanges, netip.MustParsePrefix(r))
	}
	return v
}

func TestSource(t *testing.T) {
	t.Parallel()
	n := newNode(&vip.Node{
		Addrs:    []netip.Addr{netip.MustParseAddr("192.168.6.140"), netip.MustParseAddr("172.16.0.1"), netip.MustParseAddr("fd00::1")},
		Detector: vip.Detector{CIDRs: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/16"), netip.MustParsePrefix("127.1.0.0/16"), netip.MustParsePrefix("fd01::/64")}},
	})
	for _, test := range []struct {
		client, local string
		want          vip.Source
	}{
		{"192.168.6.140", "10.96.0.1", vip.FromNode},
		{"172.16.0.1", "10.96.0.1", vip.FromNode}, // a node address among the pods'
		{"172.16.0.2", "10.96.0.1", vip.FromPod},
		{"192.168.6.141", "10.96.0.1", vip.FromOutside},
		{"10.96.0.1", "10.96.0.1", vip.FromNode}, // a made-local address is its own source
		{"127.0.0.1", "127.96.0.1", vip.FromNode},
		{"127.1.0.9", "127.96.0.1", vip.FromPod},
		{"fd00::1", "fd96::1", vip.FromNode},
		{"fd01::5", "fd96::1", vip.FromPod},
		{"fd02::5", "fd96::1", vip.FromOutside},
		{"::1", "fd96::1", vip.FromNode},
	} {
		if got := n.source(netip.MustParseAddr(test.client), netip.MustParseAddr(test.local)); got != test.want {
			t.Errorf("%s -> %s: from %s, want %s", test.client, test.local, got, test.want)
		}
	}
	if got := newNode(nil).source(netip.MustParseAddr("172.16.0.2"), netip.MustParseAddr("10.96.0.1")); got != vip.FromOutside {
		t.Errorf("without a node: from %s", got)
	}
}

// outcome is what a client gets: a name, "refused", "reset" or "nothing".
func outcome(t *testing.T, f vip.Frontend, source string) string {
	t.Helper()
	c, err := dialFrom(t, "tcp", source, at(f), 150*time.Millisecond)
	if err == nil {
		var line string
		if line, err = readLine(c); err == nil {
			name, _, _ := strings.Cut(line, " ")
			return name
		}
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case isTimeout(err):
		return "nothing"
	}
	return err.Error()
}

type visit struct{ source, want string }

func visitAll(t *testing.T, name string, f vip.Frontend, visits []visit) {
	t.Helper()
	for _, v := range visits {
		if got := outcome(t, f, v.source); got != v.want {
			t.Errorf("%s: from %s: %s, want %s", name, v.source, got, v.want)
		}
	}
}

// P-18, B41: silence outside the ranges, closed when no range is usable, and
// changes take effect on the same listener.
func TestTCPSourceRanges(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.TCP)
	e := echoTCP(t, "web-1", "127.1.0.1:0")
	n := &vip.Node{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.5")}}
	var have *vip.State
	for _, test := range []struct {
		name   string
		v      *vip.VirtualServer
		visits []visit
	}{
		{"open", server1(f, e), []visit{{"127.0.0.1", "web-1"}, {"127.0.0.9", "web-1"}}},
		{"one range", restricted(server1(f, e), "127.0.0.8/29"), []visit{{"127.0.0.8", "web-1"}, {"127.0.0.15", "web-1"}, {"127.0.0.16", "nothing"}, {"127.0.0.5", "nothing"}}},
		{"two ranges", restricted(server1(f, e), "127.0.0.9/32", "127.2.0.0/15"), []visit{{"127.0.0.9", "web-1"}, {"127.0.0.8", "nothing"}, {"127.3.9.9", "web-1"}, {"127.4.0.1", "nothing"}}},
		{"the whole world", restricted(server1(f, e), "0.0.0.0/0"), []visit{{"127.0.0.9", "web-1"}}},
		{"none usable", restricted(server1(f, e)), []visit{{"127.0.0.9", "nothing"}, {"127.0.0.5", "nothing"}}},
		{"other family", restricted(server1(f, e), "fd00::/8", "::/0"), []visit{{"127.0.0.9", "nothing"}}},
		{"the address itself", restricted(server1(f, e), "127.0.0.5/32", host(f.Addr).String()), []visit{{"127.0.0.5", "web-1"}, {f.Addr.String(), "web-1"}, {"127.0.0.6", "nothing"}}},
		{"nobody there, and only those let in know", restricted(server1(f), "127.0.0.9/32"), []visit{{"127.0.0.9", "reset"}, {"127.0.0.8", "nothing"}}},
		{"open again", server1(f, e), []visit{{"127.0.0.9", "web-1"}}},
	} {
		have = apply(t, b, have, state(n, test.v))
		visitAll(t, test.name, f, test.visits)
	}
}

// A list too long for the kernel's filters is still enforced.
func TestTCPManySourceRanges(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.TCP)
	v := restricted(server1(f, echoTCP(t, "web-1", "127.1.0.1:0")), "127.0.0.9/32")
	for i := range 3000 {
		v.SourceRanges = append(v.SourceRanges, netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32))
	}
	apply(t, b, nil, state(nil, v))
	visitAll(t, "3,001 ranges", f, []visit{{"127.0.0.9", "web-1"}, {"127.0.0.8", "reset"}})
}

// P-04, P-12, P-13: each class of clients has its own set and its own verdict.
func TestTCPClasses(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for _, a := range []string{"192.168.6.140/32", "198.51.100.7/32", "172.16.0.9/32"} {
		addAddr(t, a)
	}
	n := &vip.Node{
		Addrs:    []netip.Addr{netip.MustParseAddr("192.168.6.140")},
		Detector: vip.Detector{CIDRs: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/16")}},
	}
	const node, outside, pod = "192.168.6.140", "198.51.100.7", "172.16.0.9"
	remote, local := echoTCP(t, "remote", "127.1.0.1:0"), echoTCP(t, "local", "127.1.0.2:0")
	f := vip.Frontend{Addr: netip.MustParseAddr("203.0.113.5"), Port: 80}
	make := func(external vip.Verdict, locals ...netip.AddrPort) *vip.VirtualServer {
		v := server1(f, remote)
		for _, l := range locals {
			v.Local = append(v.Local, vip.Endpoint{AddrPort: l, Local: true})
		}
		v.Routes[vip.FromOutside] = vip.Route{Set: vip.LocalSet, Empty: external}
		return v
	}
	internalLocal := server1(f)
	for s := range internalLocal.Routes {
		internalLocal.Routes[s] = vip.Route{Set: vip.LocalSet, Empty: vip.Drop}
	}
	b := newBackend(t, Config{})
	var have *vip.State
	for _, test := range []struct {
		name   string
		v      *vip.VirtualServer
		visits []visit
	}{
		{"external Local", make(vip.Drop, local), []visit{{pod, "remote"}, {node, "remote"}, {"", "remote"}, {outside, "local"}}},
		{"B28 no local endpoint", make(vip.Drop), []visit{{pod, "remote"}, {node, "remote"}, {"", "remote"}, {outside, "nothing"}, {"127.0.0.1", "remote"}}},
		{"and restricted", restricted(make(vip.Drop), "0.0.0.0/0"), []visit{{pod, "remote"}, {node, "remote"}, {outside, "nothing"}}},
		{"ranges without pods", restricted(make(vip.Drop), "192.168.6.0/24"), []visit{{pod, "nothing"}, {node, "remote"}, {"", "remote"}, {outside, "nothing"}}},
		{"and the address itself", restricted(make(vip.Drop), "192.168.6.0/24", "203.0.113.5/32"), []visit{{pod, "nothing"}, {"", "remote"}}},
		{"refused outside", make(vip.Reject), []visit{{pod, "remote"}, {outside, "reset"}}},
		{"B30 internal Local, none local", internalLocal, []visit{{pod, "nothing"}, {node, "nothing"}, {outside, "nothing"}}},
		{"a local one again", make(vip.Drop, local), []visit{{outside, "local"}}},
	} {
		have = apply(t, b, have, state(n, test.v))
		visitAll(t, test.name, f, test.visits)
	}
}

// P-16: the client stays, per frontend, until its endpoint goes.
func TestTCPAffinity(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f, second := freeVIP(discovery.TCP), freeVIP(discovery.TCP)
	es := map[string]netip.AddrPort{}
	for _, name := range []string{"a", "b", "c"} {
		es[name] = echoTCP(t, name, "127.1.0.1:0")
	}
	sticky := func(f vip.Frontend, names ...string) *vip.VirtualServer {
		var list []netip.AddrPort
		for _, n := range names {
			list = append(list, es[n])
		}
		v := server1(f, list...)
		v.Affinity = time.Hour
		return v
	}
	have := apply(t, b, nil, state(nil, sticky(f, "a", "b", "c"), sticky(second, "a", "b", "c")))
	first := outcome(t, f, "127.0.0.9")
	for range 5 {
		if got := outcome(t, f, "127.0.0.9"); got != first {
			t.Errorf("moved from %s to %s", first, got)
		}
	}
	others := map[string]bool{}
	for _, source := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
		others[outcome(t, f, source)] = true
	}
	if len(others) != 3 {
		t.Errorf("three other clients are all on %v", others)
	}
	outcome(t, second, "127.0.0.9") // B35: on its own
	left := []string{}
	for n := range es {
		if n != first {
			left = append(left, n)
		}
	}
	have = apply(t, b, have, state(nil, sticky(f, left...))) // B36: gone, so another one at once
	now := outcome(t, f, "127.0.0.9")
	if now == first {
		t.Error("sticks to an endpoint that is gone")
	}
	apply(t, b, have, state(nil, sticky(f, "a", "b", "c"))) // and no way back
	if got := outcome(t, f, "127.0.0.9"); got != now {
		t.Errorf("moved from %s to %s when %s came back", now, got, first)
	}
}

// P-16: of connections that a client opens all at once, the first decides.
func TestStickyAtOnce(t *testing.T) {
	t.Parallel()
	c := newChooser(16)
	v := &vip.VirtualServer{Affinity: time.Hour}
	for n := range 20 {
		v.Cluster = append(v.Cluster, vip.Endpoint{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 16, 0, byte(n)}), 80)})
	}
	chosen := make(chan int, 50)
	for range cap(chosen) {
		go func() { chosen <- c.first(v, vip.ClusterSet, netip.MustParseAddr("192.0.2.1"), v.Cluster) }()
	}
	first := <-chosen
	for range cap(chosen) - 1 {
		if i := <-chosen; i != first {
			t.Fatalf("endpoints %d and %d", first, i)
		}
	}
}

func TestStickyExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sticky{max: 2}
		a, b, c := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
		e := netip.MustParseAddrPort("172.16.0.1:80")
		has := func(client netip.Addr) bool { _, ok := s.get(client, time.Minute); return ok }
		s.set(a, e, time.Minute)
		time.Sleep(40 * time.Second)
		s.set(b, e, time.Minute)
		s.set(a, e, time.Minute) // a new connection refreshes
		time.Sleep(59 * time.Second)
		if !has(a) || !has(b) {
			t.Error("forgotten too early")
		}
		s.set(c, e, time.Minute) // over the limit: b was seen last
		if !has(a) || has(b) || !has(c) {
			t.Errorf("a %v, b %v, c %v; want b gone", has(a), has(b), has(c))
		}
		time.Sleep(time.Second)
		if has(a) {
			t.Error("not expired")
		}
		s.set(b, e, time.Minute)
		if n := s.lru.Len(); n != 2 {
			t.Errorf("%d entries kept, want 2: the expired one goes", n)
		}
		s.clear()
		if has(b) || has(c) {
			t.Error("not cleared")
		}
	})
}
