package conntrack

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/viptest"
)

// TestTCPIsLeftAlone is B55 (F-18): a pass deletes the stale UDP entry of a
// port and leaves the TCP entry of the same port, stale or not.
func TestTCPIsLeftAlone(t *testing.T) {
	viptest.InNamespace(t)
	track := "add table inet t; add chain inet t c { type filter hook output priority 0; }; add rule inet t c ct state new accept"
	if out, err := exec.CommandContext(t.Context(), "nft", track).CombinedOutput(); err != nil {
		t.Fatalf("asking for connection tracking: %v: %s", err, out)
	}
	to := converse(t)
	protocols := func() string {
		conn, err := conntrack.Dial(&netlink.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		entries, err := conn.Dump(nil)
		if err != nil {
			t.Fatal(err)
		}
		var tcp, udp int
		for _, e := range entries {
			switch p := e.TupleOrig.Proto; {
			case p.DestinationPort != to.Port():
			case p.Protocol == unix.IPPROTO_TCP:
				tcp++
			case p.Protocol == unix.IPPROTO_UDP:
				udp++
			}
		}
		return fmt.Sprintf("%d TCP, %d UDP", tcp, udp)
	}
	if got, want := protocols(), "1 TCP, 1 UDP"; got != want {
		t.Fatalf("before: %s, want %s", got, want)
	}
	// Both protocols have a service there, without endpoints.
	state, w := parse(t, fmt.Sprintf("node n1\nservice a/both ips=127.0.0.1 ports=u:%[1]d/UDP,t:%[1]d/TCP\n", to.Port()))
	r := New(Config{Table: Kernel{}})
	if !r.take(&vip.Status{Snapshot: w.Snapshot, Desired: state, Applied: state}) {
		t.Fatal("UDP is not concerned")
	}
	r.pass(t.Context())
	if got, want := protocols(), "1 TCP, 0 UDP"; got != want || r.Deleted.Load() != 1 {
		t.Errorf("B55 after a pass that deleted %d: %s, want %s", r.Deleted.Load(), got, want)
	}
	gone, _ := parse(t, "node n1\n")
	r.take(&vip.Status{Snapshot: w.Snapshot, Desired: gone, Applied: gone})
	r.pass(t.Context())
	if got, want := protocols(), "1 TCP, 0 UDP"; got != want {
		t.Errorf("B55 after the service is gone: %s, want %s", got, want)
	}
}

// converse talks to one port of localhost by TCP and by UDP, and leaves both
// sockets open until the test ends.
func converse(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	to := listener.Addr().String()
	server, err := net.ListenPacket("udp4", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	for _, network := range []string{"tcp4", "udp4"} {
		c, err := net.Dial(network, to)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	return netip.MustParseAddrPort(to)
}
