package userspace

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"signpost/discovery"
	"signpost/vip"
)

// ask sends one datagram and returns the name of who answers.
func ask(t testing.TB, f vip.Frontend, source, text string) string {
	t.Helper()
	c, err := dialFrom(t, "udp", source, at(f), soon)
	if err != nil {
		t.Fatal(err)
	}
	return askOn(t, c, text)
}

func askOn(t testing.TB, c net.Conn, text string) string {
	t.Helper()
	answer, err := tryOn(c, text, soon)
	if err != nil {
		t.Fatalf("asking %q: %v", text, err)
	}
	return answer
}

func tryOn(c net.Conn, text string, wait time.Duration) (string, error) {
	if _, err := c.Write([]byte(text)); err != nil {
		return "", err
	}
	buf := make([]byte, 64<<10)
	c.SetReadDeadline(time.Now().Add(wait))
	n, err := c.Read(buf)
	if err != nil {
		return "", err
	}
	name, rest, _ := strings.Cut(string(buf[:n]), " ")
	if rest != text {
		return "", fmt.Errorf("sent %d bytes, got %d back", len(text), len(rest))
	}
	return name, nil
}

func TestUDPSessions(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.UDP)
	apply(t, b, nil, state(nil, server1(f, echoUDP(t, "a", "127.1.0.1:0"), echoUDP(t, "b", "127.1.0.1:0"))))
	seen := map[string]int{}
	for range 4 {
		c, err := dialFrom(t, "udp", "", at(f), soon)
		if err != nil {
			t.Fatal(err)
		}
		name := askOn(t, c, "hello")
		seen[name]++
		for i := range 3 { // one client stays with its endpoint
			if again := askOn(t, c, fmt.Sprint(i)); again != name {
				t.Errorf("a session moved from %s to %s", name, again)
			}
		}
	}
	if seen["a"] != 2 || seen["b"] != 2 {
		t.Errorf("4 clients over 2 endpoints: %v", seen)
	}
	if n := b.Stats().Sessions; n != 4 {
		t.Errorf("%d sessions, want 4", n)
	}
	ask(t, f, "", string(bytes.Repeat([]byte{'x'}, 60000)))
	ask(t, f, "", "")
}

// B49, F-17: the same socket goes on with another endpoint, at once.
func TestUDPEndpointGoes(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.UDP)
	old, fresh := echoUDP(t, "old", "127.1.0.1:0"), echoUDP(t, "new", "127.1.0.1:0")
	have := apply(t, b, nil, state(nil, server1(f, old)))
	c, err := dialFrom(t, "udp", "", at(f), soon)
	if err != nil {
		t.Fatal(err)
	}
	if got := askOn(t, c, "1"); got != "old" {
		t.Errorf("first: %s", got)
	}
	have = apply(t, b, have, state(nil, server1(f, old, fresh)))
	if got := askOn(t, c, "2"); got != "old" {
		t.Errorf("an endpoint more: %s", got)
	}
	have = apply(t, b, have, state(nil, server1(f, fresh)))
	if n := b.Stats().Sessions; n != 0 {
		t.Errorf("%d sessions to an endpoint that is gone", n)
	}
	if got := askOn(t, c, "3"); got != "new" {
		t.Errorf("the old one gone: %s", got)
	}
	// B51: none left, so the kernel refuses.
	have = apply(t, b, have, state(nil, server1(f)))
	if _, err := tryOn(c, "4", soon); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("no endpoint: %v", err)
	}
	apply(t, b, have, state(nil, server1(f, old)))
	if got := askOn(t, c, "5"); got != "old" {
		t.Errorf("back again: %s", got)
	}
}

// A dead endpoint that is still listed costs one datagram, not the session.
func TestUDPNextEndpoint(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.UDP)
	l, err := net.ListenPacket("udp", "127.1.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.LocalAddr().(*net.UDPAddr).AddrPort()
	l.Close()
	apply(t, b, nil, state(nil, server1(f, dead, echoUDP(t, "good", "127.1.0.2:0"))))
	c, err := dialFrom(t, "udp", "", at(f), soon)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "an answer", func() bool {
		name, err := tryOn(c, "x", 20*time.Millisecond)
		return err == nil && name == "good"
	})
}

func TestUDPIdle(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{UDPIdle: 50 * time.Millisecond})
	f := freeVIP(discovery.UDP)
	apply(t, b, nil, state(nil, server1(f, echoUDP(t, "a", "127.1.0.1:0"))))
	c, err := dialFrom(t, "udp", "", at(f), soon)
	if err != nil {
		t.Fatal(err)
	}
	askOn(t, c, "1")
	eventually(t, "the session ends", func() bool { return b.Stats().Sessions == 0 })
	askOn(t, c, "2")
}

func TestUDPLimit(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{MaxSessions: 3})
	f, other := freeVIP(discovery.UDP), freeVIP(discovery.UDP)
	e := echoUDP(t, "a", "127.1.0.1:0")
	apply(t, b, nil, state(nil, server1(f, e), server1(other, e)))
	for range 10 { // newcomers take the place of the idle
		ask(t, f, "", "x")
	}
	if n := b.Stats().Sessions; n != 3 {
		t.Errorf("%d sessions, limit 3", n)
	}
	c, err := dialFrom(t, "udp", "", at(other), soon)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := tryOn(c, "x", 30*time.Millisecond); !isTimeout(err) {
		t.Errorf("a frontend without sessions of its own: %q, %v", answer, err)
	}
}

// P-18 and P-12: whoever is not let in hears nothing.
func TestUDPDrop(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Config{})
	f := freeVIP(discovery.UDP)
	v := restricted(server1(f, echoUDP(t, "a", "127.1.0.1:0")), "127.0.0.8/29")
	have := apply(t, b, nil, state(nil, v))
	for source, in := range map[string]bool{"127.0.0.8": true, "127.0.0.15": true, "127.0.0.16": false, "127.0.0.7": false} {
		c, err := dialFrom(t, "udp", source, at(f), soon)
		if err != nil {
			t.Fatal(err)
		}
		wait := soon
		if !in {
			wait = 30 * time.Millisecond
		}
		if _, err := tryOn(c, "x", wait); in != (err == nil) || err != nil && !isTimeout(err) {
			t.Errorf("from %s: %v, want in: %v", source, err, in)
		}
	}
	silent := server1(f)
	for s := range silent.Routes {
		silent.Routes[s].Empty = vip.Drop
	}
	apply(t, b, have, state(nil, silent))
	c, err := dialFrom(t, "udp", "", at(f), soon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryOn(c, "x", 30*time.Millisecond); !isTimeout(err) {
		t.Errorf("dropped: %v", err)
	}
}
