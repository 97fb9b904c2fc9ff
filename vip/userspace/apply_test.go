package userspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"signpost/discovery"
	"signpost/vip"
)

var (
	_ vip.Backend = (*Backend)(nil)
	_ vip.Watcher = (*Backend)(nil)
)

// partial applies and returns the failures, which must be there.
func partial(t *testing.T, b *Backend, have, want *vip.State) map[vip.Frontend]error {
	t.Helper()
	var p *vip.PartialError
	if err := b.Apply(t.Context(), have, want); !errors.As(err, &p) {
		t.Fatalf("Apply: %v, want a PartialError", err)
	}
	return p.Failed
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	for _, protocol := range []discovery.Protocol{discovery.TCP, discovery.UDP} {
		b := newBackend(t, Config{})
		f, good := freeVIP(protocol), freeVIP(discovery.TCP)
		var other interface{ Close() error }
		var err error
		e := echoTCP(t, "web-1", "127.1.0.1:0")
		if protocol == discovery.TCP {
			other, err = net.Listen("tcp", at(f))
		} else {
			other, err = net.ListenPacket("udp", at(f))
			echoUDP(t, "web-1", e.String())
		}
		if err != nil {
			t.Fatal(err)
		}
		want := state(nil, server1(f, e), server1(good, e))
		failed := partial(t, b, nil, want)
		if len(failed) != 1 || !strings.Contains(failed[f].Error(), "taken by another socket") || !strings.Contains(failed[f].Error(), at(f)) {
			t.Errorf("failed: %v", failed)
		}
		if got := who(t, at(good)); got != "web-1" {
			t.Errorf("the other frontend: %q", got)
		}
		other.Close()
		apply(t, b, want.Without(failed), want)
		if protocol == discovery.TCP {
			who(t, at(f))
		} else {
			ask(t, f, "", "x")
		}
		b.Close()
	}
}

// What failed and is not wanted any more leaves nothing behind.
func TestFailedThenUnwanted(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := vip.NodePortFrontend(false, freeVIP(discovery.TCP).Port, discovery.TCP)
	free, busy := freeVIP(discovery.TCP).Addr, freeVIP(discovery.TCP).Addr
	n := &vip.Node{NodePortAddrs: []netip.Addr{free, busy}}
	l, err := net.Listen("tcp", netip.AddrPortFrom(busy, f.Port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := state(n, server1(f, echoTCP(t, "web-1", "127.1.0.1:0")))
	failed := partial(t, b, nil, want)
	who(t, netip.AddrPortFrom(free, f.Port).String()) // as much as could be done
	apply(t, b, want.Without(failed), state(n))
	if s := b.Stats(); s.Servers != 0 {
		t.Errorf("%d servers are left", s.Servers)
	}
}

func TestSCTP(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	s, good := freeVIP(discovery.SCTP), freeVIP(discovery.TCP)
	e := echoTCP(t, "web-1", "127.1.0.1:0")
	failed := partial(t, b, nil, state(nil, server1(s, e), server1(good, e)))
	if len(failed) != 1 || !errors.Is(failed[s], errSCTP) {
		t.Errorf("failed: %v", failed)
	}
	who(t, at(good))
}

// F-04: node ports answer on the node port addresses, follow them, and keep
// the protocols apart (B42).
func TestNodePort(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	port := freeVIP(discovery.TCP).Port
	f := vip.NodePortFrontend(false, port, discovery.TCP)
	u := vip.NodePortFrontend(false, port, discovery.UDP)
	first, second, third := freeVIP(0).Addr, freeVIP(0).Addr, freeVIP(0).Addr
	on := func(a netip.Addr) string { return netip.AddrPortFrom(a, port).String() }
	servers := []*vip.VirtualServer{server1(f, echoTCP(t, "web-1", "127.1.0.1:0")), server1(u, echoUDP(t, "dns-1", "127.1.0.1:0"))}
	one := &vip.Node{NodePortAddrs: []netip.Addr{first, second, netip.MustParseAddr("fd00::1")}}
	have := apply(t, b, nil, state(one, servers...))
	for _, a := range []netip.Addr{first, second} {
		if got := who(t, on(a)); got != "web-1" {
			t.Errorf("on %s: %q", a, got)
		}
		ask(t, vip.Frontend{Addr: a, Port: port}, "", "x")
	}
	if _, err := net.Dial("tcp", on(third)); err == nil {
		t.Error("answers on an address that is none")
	}
	c := connect(t, on(first))
	greeting(t, c)
	two := &vip.Node{NodePortAddrs: []netip.Addr{second, third}}
	apply(t, b, have, state(two, servers...))
	who(t, on(second))
	who(t, on(third))
	if _, err := net.Dial("tcp", on(first)); err == nil {
		t.Error("still answers on an address that is none any more")
	}
	fmt.Fprintln(c, "alive")
	if line, err := readLine(c); line != "alive" {
		t.Errorf("established on the former address: %q, %v", line, err)
	}
}

func externalIP(v *vip.VirtualServer) *vip.VirtualServer {
	v.Kind = vip.KindExternalIP
	return v
}

// A frontend may take over in one round what another one listened on.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	external := freeVIP(discovery.TCP)
	nodePort := vip.NodePortFrontend(false, external.Port, discovery.TCP)
	n := &vip.Node{NodePortAddrs: []netip.Addr{external.Addr}}
	have := apply(t, b, nil, state(n, externalIP(server1(external, echoTCP(t, "old", "127.1.0.1:0")))))
	have = apply(t, b, have, state(n, server1(nodePort, echoTCP(t, "new", "127.1.0.1:0"))))
	if got := who(t, at(external)); got != "new" {
		t.Errorf("got %q", got)
	}
	// Both: the more precise one wins, and the other one comes back.
	np := server1(nodePort, echoTCP(t, "node port", "127.1.0.1:0"))
	have = apply(t, b, have, state(n, np, externalIP(server1(external, echoTCP(t, "external", "127.1.0.1:0")))))
	if got := who(t, at(external)); got != "external" {
		t.Errorf("an external address and a node port: got %q", got)
	}
	have = apply(t, b, have, state(n, np))
	if got := who(t, at(external)); got != "node" {
		t.Errorf("the node port alone: got %q", got)
	}
	// A cluster address has all ports.
	other := external
	other.Port++
	have = apply(t, b, have, state(n, np, server1(other, echoTCP(t, "cluster", "127.1.0.1:0"))))
	if got := outcome(t, external, ""); got != "refused" {
		t.Errorf("a node port on a cluster address: %s", got)
	}
	apply(t, b, have, state(n, np))
	who(t, at(external))
}

func TestApplyEndsWithContext(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := b.Apply(ctx, nil, state(nil, server1(freeVIP(discovery.TCP), netip.MustParseAddrPort("127.1.0.1:1"))))
	var p *vip.PartialError
	if !errors.Is(err, context.Canceled) || errors.As(err, &p) {
		t.Errorf("err %v", err)
	}
}

// dump is what a backend has in the kernel and would do.
func dump(b *Backend) map[string]string {
	out := map[string]string{}
	for f, s := range b.servers {
		v := s.current.Load()
		line := fmt.Sprint(v.Owner, v.Routes, v.Cluster, v.Local, v.Affinity, v.Restricted, v.SourceRanges)
		for addr, socket := range s.sockets {
			line += fmt.Sprint(" ", addr)
			if t, ok := socket.(*tcpSocket); ok {
				line += fmt.Sprint(t.filter)
			}
		}
		out[f.String()] = line
	}
	return out
}

// Random states: incremental equals fresh, and a second round changes nothing.
func TestIncrementalEqualsFresh(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	b := newBackend(t, Config{})
	pool := make([]vip.Frontend, 8)
	for i := range pool {
		pool[i] = freeVIP(discovery.Protocol(i % 2))
	}
	var have *vip.State
	for range 40 {
		var servers []*vip.VirtualServer
		for _, f := range pool {
			if rnd.IntN(3) > 0 {
				servers = append(servers, randomServer(rnd, f))
			}
		}
		n := &vip.Node{Detector: vip.Detector{CIDRs: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("127.1.0.0"), 16+rnd.IntN(2))}}}
		if have != nil && rnd.IntN(2) > 0 {
			n = have.Node()
		}
		want := state(n, servers...)
		have = apply(t, b, have, want)
		incremental := dump(b)
		apply(t, b, nil, want)
		again := dump(b)
		if err := b.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := dump(b); len(left) != 0 {
			t.Errorf("after Cleanup: %v", left)
		}
		apply(t, b, nil, want)
		if fresh := dump(b); !maps.Equal(incremental, fresh) || !maps.Equal(again, fresh) {
			t.Fatalf("incremental %v\nagain %v\nfresh %v", incremental, again, fresh)
		}
	}
}

func randomServer(rnd *rand.Rand, f vip.Frontend) *vip.VirtualServer {
	v := server1(f)
	for i := range rnd.IntN(3) {
		v.Cluster = append(v.Cluster, vip.Endpoint{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1, 0, byte(1 + i)}), 80)})
	}
	v.Local = v.Cluster[:rnd.IntN(len(v.Cluster)+1)]
	for s := range v.Routes {
		v.Routes[s] = vip.Route{Set: vip.Set(rnd.IntN(2)), Empty: vip.Verdict(rnd.IntN(2))}
	}
	if rnd.IntN(3) == 0 {
		restricted(v, "127.0.0.0/30")
	}
	return v
}

// Property: while everything else changes, every new connection to a constant
// endpoint succeeds.
func TestConstantEndpointUnderChurn(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	constant := server1(freeVIP(discovery.TCP), echoTCP(t, "constant", "127.1.0.1:0"))
	others := make([]vip.Frontend, 20)
	for i := range others {
		others[i] = freeVIP(discovery.Protocol(i % 2))
	}
	have := apply(t, b, nil, state(nil, constant))
	done := make(chan struct{})
	var churn sync.WaitGroup
	churn.Go(func() {
		rnd := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-done:
				return
			default:
			}
			servers := []*vip.VirtualServer{constant}
			for _, f := range others[:rnd.IntN(len(others))] {
				servers = append(servers, randomServer(rnd, f))
			}
			want := state(&vip.Node{}, servers...)
			if rnd.IntN(10) == 0 {
				have = nil
			}
			if err := b.Apply(t.Context(), have, want); err != nil {
				t.Errorf("Apply: %v", err)
				return
			}
			have = want
		}
	})
	for range 500 {
		if got := who(t, at(constant.Frontend)); got != "constant" {
			t.Errorf("got %q", got)
		}
	}
	close(done)
	churn.Wait()
}

func TestCleanup(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.TCP)
	want := state(nil, server1(f, echoTCP(t, "web-1", "127.1.0.1:0")))
	apply(t, b, nil, want)
	for range 2 {
		if err := b.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := outcome(t, f, ""); got != "refused" {
		t.Errorf("after Cleanup: %s", got)
	}
	apply(t, b, nil, want)
	who(t, at(f))
}

func TestManyServersStopClean(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	var servers []*vip.VirtualServer
	seen := map[vip.Frontend]bool{}
	for len(servers) < 500 {
		if f := freeVIP(discovery.Protocol(len(servers) % 2)); !seen[f] {
			seen[f] = true
			servers = append(servers, server1(f, netip.MustParseAddrPort("127.1.0.1:9")))
		}
	}
	have := apply(t, b, nil, state(nil, servers...))
	apply(t, b, have, state(nil, slices.Clone(servers[:10])...))
	if s := b.Stats(); s.Servers != 10 {
		t.Errorf("%d servers, want 10", s.Servers)
	}
}
