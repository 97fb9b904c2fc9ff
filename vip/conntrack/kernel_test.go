package conntrack

import (
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"testing"

	"signpost/vip/viptest"
)

// TestKernel lists and deletes an entry of a real table.
func TestKernel(t *testing.T) {
	viptest.InNamespace(t)
	// Connection tracking begins with the first rule that asks for it.
	out, err := exec.CommandContext(t.Context(), "nft", "add table inet t; add chain inet t c { type filter hook output priority 0; }; add rule inet t c ct state new accept").CombinedOutput()
	if err != nil {
		t.Fatalf("asking for connection tracking: %v: %s", err, out)
	}
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	to := server.LocalAddr().(*net.UDPAddr).AddrPort()
	client, err := net.Dial("udp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}

	find := func() *Flow {
		flows, err := Kernel{}.UDP(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(flows, func(f Flow) bool { return f.Destination == to })
		if i < 0 {
			return nil
		}
		return &flows[i]
	}
	f := find()
	if f == nil {
		t.Fatal("the flow is not in the table")
	}
	if from := client.LocalAddr().(*net.UDPAddr).AddrPort(); f.Client != from || f.ReplySource != to {
		t.Errorf("got %+v, want client %s and replies from %s", *f, from, to)
	}
	for range 2 { // a second time it is not there any more, which is no error
		if err := (Kernel{}).Delete(t.Context(), *f); err != nil {
			t.Fatal(err)
		}
	}
	if find() != nil {
		t.Error("the flow is still in the table")
	}
	if err := (Kernel{}).Delete(t.Context(), Flow{Destination: netip.MustParseAddrPort("10.0.0.1:53")}); err == nil {
		t.Error("a flow of no table was deleted")
	}
}
