package dnsserver

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestProbeUDP checks that a port which was found isn't shared with a server
// that has closed its TCP socket and still answers over UDP.
func TestProbeUDP(t *testing.T) {
	t.Parallel()
	lc := net.ListenConfig{Control: reusePort}
	old, err := lc.ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	addr := old.LocalAddr().(*net.UDPAddr).AddrPort()
	if err := probeUDP(t.Context(), addr); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("L9 taken: error %v, want EADDRINUSE", err)
	}
	if err := probeUDP(t.Context(), netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		t.Errorf("L9 free: %v", err)
	}
}
