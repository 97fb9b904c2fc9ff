package userspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// Random clusters, real packets: what becomes of each is what the state means,
// but for what this backend can't do by its nature (see the package comment).
func TestModel(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	l := newLoopback(t)
	b := newBackend(t, Config{Dial: l.dial})
	random := viptest.Rand(t)
	churn := viptest.NewChurn(random)
	node := churn.Node()
	for _, a := range node.Addrs {
		l.need(a)
	}
	var planned, held *vip.State
	var before *discovery.Snapshot
	for range 25 {
		if random.IntN(8) == 0 {
			node = churn.Node()
		}
		after := churn.Step()
		planned = vip.Planner{}.Next(planned, before, after, node)
		before = after
		held = applyButSCTP(t, b, held, planned)
		l.check(t, "incremental", planned)
		if random.IntN(5) > 0 {
			continue
		}
		if err := b.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		held = applyButSCTP(t, b, nil, planned)
		l.check(t, "fresh", planned)
	}
	applyButSCTP(t, b, held, vip.NewState(&vip.Node{}))
	wantRoutes(t, "no service left")
}

// applyButSCTP applies, and accepts that SCTP fails.
func applyButSCTP(t *testing.T, b *Backend, have, want *vip.State) *vip.State {
	t.Helper()
	err := b.Apply(t.Context(), have, want)
	var p *vip.PartialError
	if err == nil {
		return want
	}
	if !errors.As(err, &p) {
		t.Fatal(err)
	}
	for f, err := range p.Failed {
		if f.Protocol != discovery.SCTP || !errors.Is(err, errSCTP) {
			t.Fatalf("%s: %v", f, err)
		}
	}
	return want.Without(p.Failed)
}

// loopback has every address that a client needs, and stands for all endpoints:
// it answers with the address of the one that the backend meant.
type loopback struct {
	t    *testing.T
	echo string

	mu   sync.Mutex
	have map[netip.Addr]bool
}

func newLoopback(t *testing.T) *loopback {
	t.Helper()
	e := echoRaw(t, "127.0.0.1:0")
	return &loopback{t: t, echo: e, have: map[netip.Addr]bool{}}
}

// echoRaw repeats the first line of a connection. To datagrams it answers with
// the name that the flow was given first: a client that gets a port a second
// time is the same flow to the backend.
func echoRaw(t *testing.T, listen string) string {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenPacket("udp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); u.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				if line, err := readLine(c); err == nil {
					fmt.Fprintln(c, line)
				}
			})
		}
	})
	wg.Go(func() {
		buf := make([]byte, 512)
		names := map[string][]byte{}
		for {
			n, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			if _, err := netip.ParseAddrPort(strings.TrimSpace(string(buf[:n]))); err == nil {
				names[from.String()] = slices.Clone(buf[:n])
			} else {
				u.WriteTo(names[from.String()], from)
			}
		}
	})
	return l.Addr().String()
}

func (l *loopback) dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, l.echo)
	if err == nil {
		_, err = fmt.Fprintln(c, to)
	}
	return c, err
}

func (l *loopback) check(t *testing.T, when string, s *vip.State) {
	t.Helper()
	var all errgroup.Group
	const atOnce = 64
	all.SetLimit(atOnce)
	for _, p := range viptest.Packets(s) {
		if p.To.Protocol == discovery.SCTP || p.From == p.To.Addr { // nobody outside has our address
			continue
		}
		l.need(p.From)
		all.Go(func() error {
			want := viptest.Expect(s, p)
			got, err := l.send(p, want)
			if err != nil {
				return fmt.Errorf("sending %s: %w", p, err)
			}
			return want.Check(p, possible(s, p, want, got))
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatalf("%s: %v; in this state:\n%s", when, err, s)
	}
}

// possible overlooks what a proxy in userspace can't do.
func possible(s *vip.State, p viptest.Packet, want viptest.Outcome, got viptest.Result) viptest.Result {
	listening := s.Get(p.To) != nil || p.To.Addr == first(s.Node().NodePortAddrs, p.To.Addr.Is6())
	switch {
	case got.Action == viptest.Forward:
		got.SNAT = want.Masquerades(p, got.Endpoint) // always is
	case want.Action == viptest.Pass: // nothing to pass it to
		got.Action = viptest.Pass
	case want.Action == viptest.Reject && got.Action == viptest.Drop && p.To.Protocol == discovery.UDP && listening:
		got.Action = viptest.Reject // an open UDP socket can't refuse
	}
	return got
}

func first(list []netip.Addr, v6 bool) netip.Addr {
	for _, a := range list {
		if a.Is6() == v6 {
			return a
		}
	}
	return netip.Addr{}
}

// need gives the loopback device an address.
func (l *loopback) need(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.have[a] {
		return
	}
	l.have[a] = true
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, Flags: syscall.IFA_F_NODAD}
		err = netlink.AddrAdd(lo, addr)
	}
	if err != nil && !errors.Is(err, syscall.EEXIST) {
		l.t.Fatalf("adding %s: %v", a, err)
	}
	eventually(l.t, "the new address is usable", func() bool { // IPv6 takes its time
		routes, err := netlink.RouteGet(a.AsSlice())
		return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
	})
}

// send sends a packet and waits for what comes: not long where nothing should.
func (l *loopback) send(p viptest.Packet, want viptest.Outcome) (viptest.Result, error) {
	wait := soon
	if want.Action == viptest.Drop || want.Action != viptest.Forward && p.To.Protocol == discovery.UDP {
		wait = 50 * time.Millisecond
	}
	network, source := "tcp", net.Addr(&net.TCPAddr{IP: p.From.AsSlice()})
	if p.To.Protocol == discovery.UDP {
		network, source = "udp", &net.UDPAddr{IP: p.From.AsSlice()}
	}
	d := net.Dialer{Timeout: wait, LocalAddr: source}
	line := ""
	c, err := d.Dial(network, at(p.To))
	if err == nil {
		defer c.Close()
		c.SetDeadline(time.Now().Add(wait))
		if network == "udp" {
			_, err = c.Write([]byte("?\n"))
		}
		if err == nil {
			line, err = readLine(c)
		}
	}
	switch {
	case err == nil:
		e, err := netip.ParseAddrPort(strings.TrimSpace(line))
		return viptest.Result{Action: viptest.Forward, Endpoint: e}, err
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return viptest.Result{Action: viptest.Reject}, nil
	case isTimeout(err):
		return viptest.Result{Action: viptest.Drop}, nil
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return viptest.Result{Action: viptest.Pass}, nil
	}
	return viptest.Result{}, err
}
