package userspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip"
)

// localRoutes lists the routes of ours, as "10.96.0.1/32".
func localRoutes(t *testing.T) []string {
	t.Helper()
	r := &netlinkRoutes{}
	defer r.close()
	_, own, err := r.list()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, p := range own {
		list = append(list, p.String())
	}
	slices.Sort(list)
	return list
}

func wantRoutes(t *testing.T, when string, want ...string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	right := func() bool { // a connection that was just closed may use one a moment longer
		got = localRoutes(t)
		return slices.Equal(got, want)
	}
	if !within(t, right) {
		t.Errorf("%s: routes to %v, want %v", when, got, want)
	}
}

func front(text string) vip.Frontend {
	f, err := vip.ParseFrontend(text)
	if err != nil {
		panic(err)
	}
	return f
}

// Addresses become local, in both families, and no longer than they are used.
func TestMadeLocal(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	e4, e6 := echoTCP(t, "four", "127.1.0.1:0"), echoTCP(t, "six", "[::1]:0")
	echoUDP(t, "four", e4.String())
	echoUDP(t, "six", e6.String())
	web, api := server1(front("10.96.0.1:80"), e4), server1(front("10.96.0.1:443"), e4)
	dns, web6 := server1(front("10.96.0.10:53/UDP"), e4), server1(front("[fd00:96::1]:80"), e6)
	dns6, empty := server1(front("[fd00:96::a]:53/UDP"), e6), server1(front("10.96.0.99:80"))
	addAddr(t, "203.0.113.7/32")
	external := server1(front("203.0.113.7:80"), e4)
	const r1, r10, r99, r6, r6a = "10.96.0.1/32", "10.96.0.10/32", "10.96.0.99/32", "fd00:96::1/128", "fd00:96::a/128"

	b := newBackend(t, Config{})
	have := apply(t, b, nil, state(nil, web, api, dns, web6, dns6, empty, external))
	wantRoutes(t, "all", r1, r10, r99, r6, r6a)
	for f, want := range map[string]string{"10.96.0.1:80": "four", "10.96.0.1:443": "four", "[fd00:96::1]:80": "six", "203.0.113.7:80": "four"} {
		if got := who(t, f); got != want {
			t.Errorf("%s: %q", f, got)
		}
	}
	if got := ask(t, dns.Frontend, "", "x"); got != "four" {
		t.Errorf("UDP: %q", got)
	}
	if got := ask(t, dns6.Frontend, "", "x"); got != "six" {
		t.Errorf("UDP over IPv6: %q", got)
	}
	for _, f := range []string{"10.96.0.99:80", "10.96.0.1:9999", "[fd00:96::1]:9999"} {
		if got := outcome(t, front(f), ""); got != "refused" {
			t.Errorf("%s: %s, want refused", f, got)
		}
	}
	have = apply(t, b, have, state(nil, api, web6, external))
	wantRoutes(t, "one user of 10.96.0.1 less", r1, r6)
	c := connect(t, "10.96.0.1:443")
	greeting(t, c)
	have = apply(t, b, have, state(nil, external))
	wantRoutes(t, "a connection left", r1)
	fmt.Fprintln(c, "alive")
	if line, err := readLine(c); line != "alive" {
		t.Errorf("established: %q, %v", line, err)
	}
	c.Close()
	eventually(t, "the last user gone", func() bool { return len(localRoutes(t)) == 0 })
	apply(t, b, have, state(nil))
	if a, _ := netlink.AddrList(nil, netlink.FAMILY_V4); !slices.ContainsFunc(a, func(a netlink.Addr) bool { return a.IP.Equal(net.IPv4(203, 0, 113, 7)) }) {
		t.Error("an address of somebody else is gone")
	}
}

// F-16: a service range is local as a whole, so what nobody has is refused.
func TestServiceRange(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := &vip.Node{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112"), netip.MustParsePrefix("127.96.0.0/16")}}
	const range4, range6, external = "10.96.0.0/16", "fd00:96::/112", "203.0.113.9/32"
	e := echoTCP(t, "web", "127.1.0.1:0")
	in, out := server1(front("10.96.0.1:80"), e), server1(front("203.0.113.9:80"), e)
	b := newBackend(t, Config{})
	have := apply(t, b, nil, state(&vip.Node{}, in))
	wantRoutes(t, "no range known", "10.96.0.1/32")
	have = apply(t, b, have, state(n, in, out))
	wantRoutes(t, "ranges", range4, range6, external)
	who(t, "10.96.0.1:80")
	who(t, "203.0.113.9:80")
	for _, nobodys := range []string{"10.96.0.2:80", "10.96.255.254:1", "[fd00:96::77]:80"} {
		if got := outcome(t, front(nobodys), ""); got != "refused" {
			t.Errorf("%s: %s", nobodys, got)
		}
	}
	have = apply(t, b, have, state(n))
	wantRoutes(t, "no service", range4, range6)
	have = apply(t, b, have, state(n, in))
	wantRoutes(t, "one in the range", range4, range6)
	have = apply(t, b, have, state(&vip.Node{}, in))
	wantRoutes(t, "no range again", "10.96.0.1/32")
	who(t, "10.96.0.1:80")
	apply(t, b, have, vip.NewState(&vip.Node{}))
	wantRoutes(t, "nothing")
}

// X14, X13: what an earlier process left is adopted or removed, what others
// made stays; Cleanup takes everything of ours.
func TestRestartAdopts(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	foreign := (&netlinkRoutes{lo: 1}).route(netip.MustParsePrefix("10.96.0.200/32"))
	foreign.Protocol = unix.RTPROT_STATIC
	if err := netlink.RouteAdd(foreign); err != nil {
		t.Fatal(err)
	}
	e := echoTCP(t, "web", "127.1.0.1:0")
	keep, stale, theirs := server1(front("10.96.0.1:80"), e), server1(front("10.96.0.2:80"), e), server1(front("10.96.0.200:80"), e)
	first := newBackend(t, Config{})
	apply(t, first, nil, state(nil, keep, stale))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	wantRoutes(t, "between two processes", "10.96.0.1/32", "10.96.0.2/32")

	second := newBackend(t, Config{})
	have := apply(t, second, nil, state(nil, keep, theirs))
	wantRoutes(t, "adopted", "10.96.0.1/32")
	who(t, "10.96.0.1:80")
	who(t, "10.96.0.200:80")

	if err := netlink.RouteDel((&netlinkRoutes{lo: 1}).route(host(keep.Frontend.Addr))); err != nil { // X02: somebody deletes it
		t.Fatal(err)
	}
	apply(t, second, nil, have)
	wantRoutes(t, "healed", "10.96.0.1/32")
	who(t, "10.96.0.1:80")

	for range 2 {
		if err := New(Config{}).Cleanup(t.Context()); err != nil { // by another process
			t.Fatal(err)
		}
		wantRoutes(t, "cleaned up")
	}
	if out, _ := exec.Command("ip", "route", "show", "table", "local", "10.96.0.200").Output(); !strings.Contains(string(out), "proto static") {
		t.Errorf("somebody else's route is gone: %s", out)
	}
}

func TestWatch(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	b := newBackend(t, Config{})
	used, unused := front("10.96.0.1:80"), netip.MustParsePrefix("10.96.0.2/32")
	r := &netlinkRoutes{lo: 1}
	e := echoTCP(t, "web", "127.1.0.1:0")
	want := apply(t, b, nil, state(nil, server1(used, e)))
	ctx, cancel := context.WithCancel(t.Context())
	drifted := make(chan struct{}, 1)
	var wg sync.WaitGroup
	started := make(chan struct{})
	wg.Go(func() {
		close(started)
		notify := func() {
			select {
			case drifted <- struct{}{}:
			default: // told already; nobody may be listening any more
			}
		}
		if err := b.Watch(ctx, notify); !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: %v", err)
		}
	})
	<-started
	eventually(t, "drift seen", func() bool { // the subscription is made at some time
		_ = netlink.RouteDel(r.route(host(used.Addr)))
		select {
		case <-drifted:
			return true
		default:
			return b.Apply(t.Context(), nil, want) != nil
		}
	})
	for err := error(nil); err == nil; { // and nothing more of it
		err = netlink.RouteDel(r.route(host(used.Addr)))
	}
	if err := netlink.RouteAdd(r.route(unused)); err != nil {
		t.Fatal(err)
	}
	if err := netlink.RouteDel(r.route(unused)); err != nil {
		t.Fatal(err)
	}
	cancel()
	wg.Wait()
}

// fakeRoutes fails as it is told.
type fakeRoutes struct {
	listErr, addErr, removeErr error
	own                        []netip.Prefix
}

func (f *fakeRoutes) list() (foreign, own []netip.Prefix, err error) { return nil, f.own, f.listErr }
func (f *fakeRoutes) add(netip.Prefix) error                         { return f.addErr }
func (f *fakeRoutes) remove(netip.Prefix) error                      { return f.removeErr }
func (f *fakeRoutes) close()                                         {}

// X18: what lacks a privilege says which, and is the only thing that fails.
func TestWithoutPrivilege(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		kernel *fakeRoutes
		says   string
	}{
		{"no CAP_NET_ADMIN", &fakeRoutes{addErr: unix.EPERM}, "CAP_NET_ADMIN is missing"},
		{"no netlink", &fakeRoutes{listErr: errors.New("opening netlink: not here")}, "opening netlink"},
		{"no IPv4", &fakeRoutes{addErr: unix.ENODEV}, "making 10.96.0.1/32 local"},
	} {
		b := newBackend(t, Config{})
		b.addrs = newAddresses(test.kernel)
		f, good := front("10.96.0.1:8080"), freeVIP(0)
		e := echoTCP(t, "web", "127.1.0.1:0")
		failed := partial(t, b, nil, state(nil, server1(f, e), server1(good, e)))
		if len(failed) != 1 || failed[f] == nil || !strings.Contains(failed[f].Error(), test.says) {
			t.Errorf("%s: %v", test.name, failed)
		}
		who(t, at(good))
	}
}

func TestRouteThatStays(t *testing.T) {
	t.Parallel()
	old := netip.MustParsePrefix("10.96.0.7/32")
	kernel := &fakeRoutes{own: []netip.Prefix{old}, removeErr: unix.EBUSY}
	b := newBackend(t, Config{})
	b.addrs = newAddresses(kernel)
	if err := b.Apply(t.Context(), nil, state(nil)); !errors.Is(err, unix.EBUSY) {
		t.Errorf("stale route: %v", err)
	}
	kernel.removeErr = unix.ESRCH // gone by another's hand
	apply(t, b, nil, state(nil))
}
