package userspace

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"signpost/discovery"
	"signpost/vip"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const soon = 5 * time.Second // long enough for anything that should happen

// newBackend returns a backend that the test closes.
func newBackend(t testing.TB, cfg Config) *Backend {
	t.Helper()
	b := New(cfg)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return b
}

// freeVIP returns a loopback frontend that nobody else uses, most probably.
func freeVIP(p discovery.Protocol) vip.Frontend {
	addr := netip.AddrFrom4([4]byte{127, 96, byte(1 + rand.IntN(250)), byte(1 + rand.IntN(250))})
	return vip.Frontend{Addr: addr, Port: uint16(20000 + rand.IntN(10000)), Protocol: p}
}

func server1(f vip.Frontend, endpoints ...netip.AddrPort) *vip.VirtualServer {
	v := &vip.VirtualServer{Frontend: f, Owner: discovery.Key{Namespace: "default", Name: "web"}}
	for _, e := range endpoints {
		v.Cluster = append(v.Cluster, vip.Endpoint{AddrPort: e})
	}
	slices.SortFunc(v.Cluster, func(a, b vip.Endpoint) int { return a.AddrPort.Compare(b.AddrPort) })
	return v
}

// state makes a state in which every server is a service of its own.
func state(n *vip.Node, servers ...*vip.VirtualServer) *vip.State {
	var plans []*vip.ServicePlan
	for i, v := range servers {
		c := *v
		c.Owner = discovery.Key{Namespace: "default", Name: fmt.Sprintf("s%d", i)}
		plans = append(plans, &vip.ServicePlan{Owner: c.Owner, Servers: []*vip.VirtualServer{&c}})
	}
	return vip.NewState(n, plans...)
}

func apply(t testing.TB, b *Backend, have, want *vip.State) *vip.State {
	t.Helper()
	if err := b.Apply(t.Context(), have, want); err != nil {
		t.Fatalf("Apply: %v", err)
	}
	return want
}

// echoTCP says its name and the client's address in a line, and then repeats
// what it hears until the client is done.
func echoTCP(t testing.TB, name, listen string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				fmt.Fprintf(c, "%s %s\n", name, c.RemoteAddr())
				io.Copy(c, c)
			})
		}
	})
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// echoUDP answers every datagram with its name, a blank and the datagram.
func echoUDP(t testing.TB, name, listen string) netip.AddrPort {
	t.Helper()
	c, err := net.ListenPacket("udp", listen)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { c.Close(); wg.Wait() })
	wg.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			c.WriteTo(append([]byte(name+" "), buf[:n]...), from)
		}
	})
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// dialFrom connects from a source address; empty: the kernel's choice.
func dialFrom(t testing.TB, network, source, to string, timeout time.Duration) (net.Conn, error) {
	t.Helper()
	d := net.Dialer{Timeout: timeout}
	if source != "" {
		ip := net.ParseIP(source)
		d.LocalAddr = &net.TCPAddr{IP: ip}
		if network == "udp" {
			d.LocalAddr = &net.UDPAddr{IP: ip}
		}
	}
	c, err := d.Dial(network, to)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(soon))
	return c, nil
}

func connect(t testing.TB, to string) *net.TCPConn {
	t.Helper()
	c, err := dialFrom(t, "tcp", "", to, soon)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// greeting reads who answers, and which source it sees.
func greeting(t testing.TB, c net.Conn) (name, source string) {
	t.Helper()
	line, err := readLine(c)
	if err != nil {
		t.Fatalf("reading the greeting: %v", err)
	}
	name, source, _ = strings.Cut(line, " ")
	return name, source
}

func readLine(c net.Conn) (string, error) {
	line, err := bufio.NewReaderSize(c, 64).ReadString('\n')
	return strings.TrimSpace(line), err
}

// who opens a connection and tells who answers.
func who(t testing.TB, to string) string {
	t.Helper()
	c := connect(t, to)
	defer c.Close()
	name, _ := greeting(t, c)
	return name
}

func at(f vip.Frontend) string { return netip.AddrPortFrom(f.Addr, f.Port).String() }

// eventually waits for something that nobody announces.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !within(t, is) {
		t.Fatalf("%s: not within %s", what, soon)
	}
}

func within(t testing.TB, is func() bool) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

const inside = "SIGNPOST_TEST_NAMESPACE"

// inNamespace runs the calling test again, alone, in a network namespace of its
// own, in which it is root; there it returns true. Elsewhere it waits for the
// outcome and returns false.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) == t.Name() {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), inside+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil && os.Getenv("REQUIRE_KERNEL") == "" {
		t.Skipf("this machine gives no network namespace: %v", err)
	}
	if err != nil {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
	return false
}

// addAddr gives the loopback device another address.
func addAddr(t *testing.T, cidr string) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	a, err := netlink.ParseAddr(cidr)
	if err != nil {
		t.Fatal(err)
	}
	a.Flags = syscall.IFA_F_NODAD
	if err := netlink.AddrAdd(lo, a); err != nil {
		t.Fatal(err)
	}
}
