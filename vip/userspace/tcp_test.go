package userspace

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/bpf"

	"signpost/discovery"
	"signpost/vip"
)

func TestTCPStream(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.TCP)
	apply(t, b, nil, state(nil, server1(f, echoTCP(t, "web-1", "127.1.0.1:0"))))

	for _, size := range []int{0, 1, 100, headBuffer, 64<<10 - 1, 64 << 10, 64<<10 + 1, 3 << 20} {
		c := connect(t, at(f))
		greeting(t, c)
		sent := make([]byte, size)
		rand.Read(sent)
		var wg sync.WaitGroup
		wg.Go(func() {
			c.Write(sent)
			c.CloseWrite() // and the other direction goes on
		})
		got, err := io.ReadAll(c)
		wg.Wait()
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes: got %d back, equal %v, err %v", size, len(got), bytes.Equal(got, sent), err)
		}
	}
	eventually(t, "all connections gone", func() bool { return b.Stats().Connections == 0 })
}

// The endpoint ends its direction first; the client's still works.
func TestTCPHalfCloseByEndpoint(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.1.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan string, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.(*net.TCPConn).CloseWrite()
		all, _ := io.ReadAll(c)
		heard <- string(all)
	})
	b := newBackend(t, Config{})
	f := freeVIP(discovery.TCP)
	apply(t, b, nil, state(nil, server1(f, l.Addr().(*net.TCPAddr).AddrPort())))
	c := connect(t, at(f))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("reading: %v, want EOF", err)
	}
	io.WriteString(c, "still here")
	c.CloseWrite()
	if got := <-heard; got != "still here" {
		t.Errorf("the endpoint heard %q", got)
	}
}

func TestTCPResetIsPassedOn(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.1.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.TCP)
	apply(t, b, nil, state(nil, server1(f, l.Addr().(*net.TCPAddr).AddrPort())))

	client := connect(t, at(f))
	endpoint, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	reset(endpoint.(*net.TCPConn))
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the endpoint resets: client reads %v", err)
	}

	client = connect(t, at(f))
	if endpoint, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	defer endpoint.Close()
	reset(client)
	if _, err := endpoint.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client resets: endpoint reads %v", err)
	}
}

// F-15, F-16, B58: refused, and at once.
func TestTCPRefusal(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.TCP)
	e := echoTCP(t, "web-1", "127.1.0.1:0")
	full, empty := server1(f, e), server1(f)
	unassigned := f
	unassigned.Port++

	refused := func(f vip.Frontend) {
		t.Helper()
		start := time.Now()
		if _, err := dialFrom(t, "tcp", "", at(f), soon); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want a refusal", f, err)
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("%s: refused after %s", f, took)
		}
	}
	have := apply(t, b, nil, state(nil, empty))
	refused(f)
	have = apply(t, b, have, state(nil, full))
	if got := who(t, at(f)); got != "web-1" {
		t.Errorf("with an endpoint: %q", got)
	}
	refused(unassigned)
	have = apply(t, b, have, state(nil, empty))
	refused(f)
	apply(t, b, have, state(nil))
	refused(f)
}

// F-18: what is established outlives its endpoint's and its frontend's removal.
func TestTCPEstablishedLivesOn(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.TCP)
	old, fresh := echoTCP(t, "old", "127.1.0.1:0"), echoTCP(t, "new", "127.1.0.2:0")
	have := apply(t, b, nil, state(nil, server1(f, old)))
	c := connect(t, at(f))
	greeting(t, c)
	listener := b.servers[f].sockets[f.Addr]

	alive := func(when string) {
		t.Helper()
		io.WriteString(c, "ping\n")
		if line, err := readLine(c); line != "ping" {
			t.Errorf("%s: %q, %v", when, line, err)
		}
	}
	have = apply(t, b, have, state(nil, server1(f, fresh)))
	alive("endpoint replaced")
	if b.servers[f].sockets[f.Addr] != listener {
		t.Error("a change of endpoints replaced the listener")
	}
	if got := who(t, at(f)); got != "new" {
		t.Errorf("a new connection went to %q", got)
	}
	have = apply(t, b, have, state(nil, server1(f)))
	alive("no endpoint left")
	apply(t, b, have, state(nil))
	alive("frontend removed")
}

func TestTCPEvenSpread(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.TCP)
	var es []netip.AddrPort
	for _, name := range []string{"a", "b", "c"} {
		es = append(es, echoTCP(t, name, "127.1.0.1:0"))
	}
	apply(t, b, nil, state(nil, server1(f, es...)))
	count := map[string]int{}
	for range 30 {
		count[who(t, at(f))]++
	}
	if count["a"] != 10 || count["b"] != 10 || count["c"] != 10 {
		t.Errorf("30 connections over 3 endpoints: %v", count)
	}
}

func TestTCPNextEndpoint(t *testing.T) {
	t.Parallel()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return attach(c, []bpf.Instruction{bpf.RetConstant{Val: filterDrop}})
	}}
	config.SetMultipathTCP(false)
	silent, err := config.Listen(t.Context(), "tcp", "127.1.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	mute := silent.Addr().(*net.TCPAddr).AddrPort()
	closed := netip.MustParseAddrPort("127.1.0.3:9")
	good := echoTCP(t, "good", "127.1.0.2:0")
	quick := []time.Duration{20 * time.Millisecond, 20 * time.Millisecond}

	f := freeVIP(discovery.TCP)
	for _, test := range []struct {
		name string
		list []netip.AddrPort
		want string
	}{
		{"refusing", []netip.AddrPort{closed, good}, "good"},
		{"silent", []netip.AddrPort{mute, good}, "good"},
		{"both", []netip.AddrPort{closed, good, mute}, "good"},
		{"none answers", []netip.AddrPort{mute}, "reset"},
		{"all refuse", []netip.AddrPort{closed}, "reset"},
		{"a loop", []netip.AddrPort{netip.AddrPortFrom(f.Addr, f.Port)}, "reset"},
	} {
		b := newBackend(t, Config{DialTimeouts: quick})
		apply(t, b, nil, state(nil, server1(f, test.list...)))
		for range 2 * len(test.list) {
			if got := outcome(t, f, ""); got != test.want {
				t.Errorf("%s: %s, want %s", test.name, got, test.want)
			}
		}
		b.Close()
	}
}

func TestTCPLimit(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{MaxConnections: 2})
	f := freeVIP(discovery.TCP)
	apply(t, b, nil, state(nil, server1(f, echoTCP(t, "web-1", "127.1.0.1:0"))))
	first, second := connect(t, at(f)), connect(t, at(f))
	greeting(t, first)
	greeting(t, second)
	if got := outcome(t, f, ""); got != "reset" {
		t.Errorf("the third of two: %s", got)
	}
	first.Close()
	eventually(t, "room again", func() bool { return b.Stats().Connections == 1 })
	who(t, at(f))
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	b := New(Config{})
	f, u := freeVIP(discovery.TCP), freeVIP(discovery.UDP)
	have := apply(t, b, nil, state(nil, server1(f, echoTCP(t, "web-1", "127.1.0.1:0")), server1(u, echoUDP(t, "dns-1", "127.1.0.1:0"))))
	c := connect(t, at(f))
	greeting(t, c)
	ask(t, u, "", "x")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	if s := b.Stats(); s != (Stats{}) {
		t.Errorf("after Close: %+v", s)
	}
	if err := b.Apply(t.Context(), have, have); err == nil {
		t.Error("a closed backend applies")
	}
}
