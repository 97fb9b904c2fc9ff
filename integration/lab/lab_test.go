package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// needRoot skips where there is no lab to be had.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("REQUIRE_KERNEL") != "" {
		t.Fatal("needs root")
	}
	t.Skip("needs root, for network namespaces")
}

func build(t testing.TB, topology Topology, o Options) *Lab {
	t.Helper()
	needRoot(t)
	l, err := New(t.Context(), topology, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return l
}

// hear connects from a host and returns what the other side says.
func hear(t testing.TB, l *Lab, host, network, to string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c, err := l.Dial(ctx, host, network, to)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintln(c, "hello")
	buf := make([]byte, 512)
	n, err := c.Read(buf)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(buf[:n]))
}

func expect(t testing.TB, l *Lab, host, network, to, says string) {
	t.Helper()
	if got := hear(t, l, host, network, to); !strings.HasPrefix(got, says) {
		t.Errorf("%s -> %s/%s: %q, want %q", host, to, network, got, says)
	}
}

func TestReachability(t *testing.T) {
	needRoot(t)
	for range 2 { // twice in a row
		l := build(t, Default(true), Options{})
		for _, network := range []string{"tcp", "udp"} {
			expect(t, l, "pod-a", network, "172.16.85.11:80", "pod pod-b at 172.16.85.11:80, you are 172.16.85.10:")
			expect(t, l, "pod-a", network, "172.16.58.11:8080", "pod pod-d at 172.16.58.11:8080, you are 172.16.85.10:")
			expect(t, l, "pod-a", network, "172.16.85.10:80", "pod pod-a at 172.16.85.10:80, you are 172.16.85.10:")
			expect(t, l, "node-a", network, "172.16.85.10:80", "pod pod-a at 172.16.85.10:80, you are 192.168.6.140:")
			expect(t, l, "node-a", network, "172.16.58.10:80", "pod pod-c at 172.16.58.10:80, you are 192.168.6.140:")
			expect(t, l, "outside", network, "172.16.58.10:80", "pod pod-c at 172.16.58.10:80, you are 198.51.100.10:")
			expect(t, l, "pod-a", network, "[fd00:172:58::10]:80", "pod pod-c at [fd00:172:58::10]:80, you are [fd00:172:85::10]:")
			expect(t, l, "node-b", network, "[fd00:172:85::10]:80", "pod pod-a at [fd00:172:85::10]:80, you are [fd00:6::141]:")
			expect(t, l, "outside", network, "[fd00:172:85::10]:80", "pod pod-a at [fd00:172:85::10]:80, you are [2001:db8:100::10]:")
		}
		for _, node := range []string{"192.168.6.140:7", "192.168.6.141:7", "[fd00:6::141]:7"} {
			if got := hear(t, l, "outside", "tcp", node); !strings.Contains(got, "connection refused") {
				t.Errorf("outside -> %s: %q, want the node's refusal", node, got)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := namespaces(l.name); err != nil || len(left) > 0 {
			t.Fatalf("left behind: %v, %v", left, err)
		}
		if _, err := os.Stat(l.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder is left behind: %v", err)
		}
	}
}

// All addresses are what the topology says, and nothing else; node port
// addresses are found by looking at interfaces (P-22).
func TestAddresses(t *testing.T) {
	l := build(t, Default(false), Options{})
	for host, want := range map[string]string{"node-a": "192.168.6.140", "pod-c": "172.16.58.10", Router: ""} {
		var got []string
		err := l.RunIn(host, func() error {
			list, err := netlink.AddrList(nil, netlink.FAMILY_V4)
			for _, a := range list {
				if !a.IP.IsLoopback() {
					got = append(got, a.IP.String())
				}
			}
			return err
		})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s has %v, %v; want %q", host, got, err, want)
		}
	}
	var names []string
	err := l.RunIn("node-a", func() error {
		list, err := net.Interfaces()
		for _, i := range list {
			names = append(names, i.Name)
		}
		return err
	})
	if got := strings.Join(names, " "); err != nil || !strings.Contains(got, "pod0 pod1") && !strings.Contains(got, "pod1 pod0") {
		t.Errorf("interfaces of node-a: %s, %v", got, err)
	}
}

// P-15: a pod reaches itself by an address that its node translates.
func TestHairpin(t *testing.T) {
	l := build(t, Default(false), Options{})
	rules := `table ip t {
		chain pre { type nat hook prerouting priority -100; ip daddr 10.96.0.1 tcp dport 80 dnat to 172.16.85.10:80; }
		chain post { type nat hook postrouting priority 100; ip saddr 172.16.85.10 ip daddr 172.16.85.10 masquerade; }
	}`
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("the nft program is not installed; the backends' own tests send the same packets")
	}
	if _, err := l.Exec(t.Context(), "node-a", "nft", rules); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "pod-a", "tcp", "10.96.0.1:80", "pod pod-a at 172.16.85.10:80, you are 192.168.6.140:")
	expect(t, l, "outside", "tcp", "10.96.0.1:80", "pod pod-a at 172.16.85.10:80, you are 198.51.100.10:")
	if err := l.Route(netip.MustParsePrefix("10.96.0.0/12"), "node-b"); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, l, "outside", "tcp", "10.96.0.1:80"); strings.HasPrefix(got, "pod") {
		t.Errorf("by a node that knows nothing: %q", got)
	}
}

// A cluster like those that people draw: any pod address on any node, pods on
// their node's network.
func TestAnyTopology(t *testing.T) {
	l := build(t, Topology{
		Nodes: []Node{{Name: "k8s-master", Addrs: addrs("192.168.6.139")}, {Name: "k8s-node01", Addrs: addrs("192.168.6.140", "10.9.9.9")}},
		Pods: []Pod{
			{Name: "api", Node: "k8s-master", Addrs: addrs("192.168.6.139"), Ports: []uint16{6443}, HostNetwork: true},
			{Name: "a-pod-with-a-rather-long-name-5th77", Node: "k8s-node01", Addrs: addrs("172.16.85.249"), Ports: []uint16{80}},
			{Name: "stranger", Node: "k8s-master", Addrs: addrs("172.16.85.250"), Ports: []uint16{80}},
			{Name: "client", Node: "k8s-node01", Addrs: addrs("172.16.1.1")},
		},
	}, Options{})
	expect(t, l, "client", "tcp", "172.16.85.249:80", "pod a-pod-with-a-rather-long-name-5th77 at")
	expect(t, l, "client", "tcp", "172.16.85.250:80", "pod stranger at")
	expect(t, l, "client", "tcp", "192.168.6.139:6443", "pod api at 192.168.6.139:6443, you are 172.16.1.1:")
	expect(t, l, "k8s-node01", "tcp", "192.168.6.139:6443", "pod api at 192.168.6.139:6443, you are 192.168.6.140:")
	expect(t, l, "api", "tcp", "10.9.9.9:1", "dial tcp 10.9.9.9:1: connect: connection refused")
}

func TestBadTopology(t *testing.T) {
	t.Parallel()
	node := Node{Name: "node-a", Addrs: addrs("192.168.6.140")}
	for name, test := range map[string]struct {
		topology Topology
		says     string
	}{
		"twice":            {Topology{Nodes: []Node{node, node}}, `host "node-a"`},
		"not a name":       {Topology{Outside: []Host{{Name: "../etc"}}}, `host "../etc"`},
		"the router":       {Topology{Outside: []Host{{Name: Router}}}, `host "router"`},
		"no node":          {Topology{Pods: []Pod{{Name: "p", Node: "nowhere"}}}, `no node "nowhere"`},
		"no family":        {Topology{Nodes: []Node{node}, Pods: []Pod{{Name: "p", Node: "node-a", Addrs: addrs("fd00::1")}}}, "none of that family"},
		"host network":     {Topology{Nodes: []Node{node}, Pods: []Pod{{Name: "p", Node: "node-a", Addrs: addrs("10.0.0.1"), HostNetwork: true}}}, "is not one of node"},
		"route to nowhere": {Topology{Routes: []Route{{To: netip.MustParsePrefix("10.96.0.0/12"), Node: "x"}}}, `no node "x"`},
	} {
		if _, err := New(t.Context(), test.topology, Options{}); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

func TestExec(t *testing.T) {
	l := build(t, Default(false), Options{})
	out, err := l.Exec(t.Context(), "pod-a", "ip", "-br", "addr", "show", "eth0")
	if err != nil || !strings.Contains(out, "172.16.85.10/32") {
		t.Errorf("Exec: %q, %v", out, err)
	}
	if _, err := l.Exec(t.Context(), "pod-a", "sh", "-c", "echo so it is >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "so it is") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a command that fails: %v", err)
	}
	if _, err := l.Exec(t.Context(), "pod-z", "true"); err == nil || !strings.Contains(err.Error(), "pod-a") {
		t.Errorf("a host that is not there: %v", err)
	}
	if err := l.Resolve("pod-a", "192.168.6.140", "default.svc.cluster.local"); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{"pod-a": true, "pod-b": false} {
		out, err := l.Exec(t.Context(), host, "cat", "/etc/resolv.conf")
		if has := strings.Contains(out, "nameserver 192.168.6.140\n"); err != nil || has != want {
			t.Errorf("resolv.conf of %s: %q, %v", host, out, err)
		}
	}
}

func TestProcess(t *testing.T) {
	l := build(t, Default(false), Options{})
	start := func(script string) *Process {
		t.Helper()
		p, err := l.Start("node-a", "script", l.Command(t.Context(), "node-a", "sh", "-c", script))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	polite := start(`trap 'echo bye; exit 0' TERM; echo hello; while :; do sleep 0.01; done`)
	for !strings.Contains(polite.Output(), "hello") {
		select {
		case <-polite.Ended():
			t.Fatalf("ended: %s", polite.Output())
		case <-time.After(time.Millisecond):
		}
	}
	if err := polite.Stop(); err != nil || !strings.Contains(polite.Output(), "bye") {
		t.Errorf("Stop: %v, %q", err, polite.Output())
	}
	if err := start("sleep 60").Kill(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Kill: %v", err)
	}
	start("exec sleep 60") // the lab's to end
	orphan := exec.Command("sleep", "60")
	if err := l.RunIn("pod-a", orphan.Start); err != nil { // what nobody remembers
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := orphan.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a process that is left in the lab: %v", err)
	}
}

// What a process leaves when it is killed goes with the next lab.
func TestLeftovers(t *testing.T) {
	needRoot(t)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("signpost-%d.1-pod-a", gone.Process.Pid)
	ns, err := createNamespace(name)
	if err != nil {
		t.Fatal(err)
	}
	orphan := exec.Command("sleep", "60")
	if err := within(ns, orphan.Start); err != nil {
		t.Fatal(err)
	}
	ns.Close()
	folder := filepath.Join(os.TempDir(), name+"-123")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	build(t, Topology{}, Options{})
	if exists(name) {
		t.Error("the namespace is still there")
	}
	if err := orphan.Wait(); err == nil {
		t.Error("the process was not ended")
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// A lab with a name outlives the process that made it.
func TestLeaveAndOpen(t *testing.T) {
	needRoot(t)
	name := fmt.Sprintf("signpost-test-%d", os.Getpid())
	o := Options{Name: name, Dir: filepath.Join(t.TempDir(), "lab")}
	made, err := New(t.Context(), Default(false), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for range 2 { // idempotent
			if err := Remove(name, o.Dir); err != nil {
				t.Error(err)
			}
		}
		if Exists(name) {
			t.Error("still there after Remove")
		}
	}()
	if _, err := New(t.Context(), Default(false), o); err == nil || !strings.Contains(err.Error(), "is running already") {
		t.Errorf("a second one: %v", err)
	}
	defer closeAll(made.closers) // the echo servers are this process's here
	made.Leave()
	if err := made.Close(); err != nil || !Exists(name) {
		t.Fatalf("Close after Leave: %v, exists %v", err, Exists(name))
	}
	again, err := Open(name, o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, again, "pod-a", "tcp", "172.16.58.10:80", "pod pod-c at")
	again.Leave()
	if _, err := Open(name+"-not", ""); err == nil || !strings.Contains(err.Error(), "is not running") {
		t.Errorf("one that is not there: %v", err)
	}
}

func BenchmarkNew(b *testing.B) {
	needRoot(b)
	for b.Loop() {
		l, err := New(b.Context(), Default(true), Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
