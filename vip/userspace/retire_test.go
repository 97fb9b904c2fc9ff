package userspace

import (
	"fmt"
	"net/netip"
	"testing"

	"signpost/vip"
)

// TestRetire: another backend takes over; what is established lives on.
func TestRetire(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	endpoint := echoTCP(t, "four", "127.1.0.1:0")
	node := &vip.Node{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
	b := newBackend(t, Config{})
	want := state(node, server1(front("10.96.0.1:80"), endpoint), server1(front("10.96.0.2:80"), endpoint),
		server1(front("203.0.113.7:80"), endpoint))
	apply(t, b, nil, want)
	wantRoutes(t, "at work", "10.96.0.0/16", "203.0.113.7/32")
	c := connect(t, "10.96.0.1:80")
	greeting(t, c)

	if err := b.Retire(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRoutes(t, "retired", "10.96.0.1/32")
	fmt.Fprintln(c, "alive")
	if line, err := readLine(c); line != "alive" {
		t.Errorf("established: %q, %v", line, err)
	}
	if got := outcome(t, front("10.96.0.1:80"), ""); got != "refused" {
		t.Errorf("new: %s, want refused", got)
	}
	c.Close()
	eventually(t, "the last route gone", func() bool { return len(localRoutes(t)) == 0 })

	apply(t, b, nil, want)
	wantRoutes(t, "at work again", "10.96.0.0/16", "203.0.113.7/32")
	if got := who(t, "10.96.0.2:80"); got != "four" {
		t.Errorf("at work again: %q", got)
	}
}
