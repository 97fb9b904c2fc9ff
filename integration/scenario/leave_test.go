package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signpost/integration/lab"
)

// TestLeaveIPVS is X22 from mode ipvs to modes that translate: what IPVS carries
// goes on until it ends, and new connections find one mode or the other.
func TestLeaveIPVS(t *testing.T) {
	needMode(t, "ipvs", "REQUIRE_IPVS")
	for _, successor := range []string{"nftables", "iptables"} {
		t.Run(successor, func(t *testing.T) { leave(t, successor) })
	}
}

// localService goes to different endpoints from inside and from outside, which
// mode ipvs does with servers by mark.
const localService = `apiVersion: v1
kind: Service
metadata: {name: local, namespace: default}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  clusterIP: 10.96.0.8
  loadBalancerIP: 203.0.113.101
  ports: [{port: 80, nodePort: 30081}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: local, namespace: default, labels: {kubernetes.io/service-name: local}}
addressType: IPv4
ports: [{port: 8080}]
endpoints:
- {addresses: [172.16.58.10], nodeName: node-b}
- {addresses: [172.16.85.11], nodeName: node-a}
`

// soon is what ends connections of mode ipvs that don't end by themselves.
const soon = "\n        drain 1m"

// waysIn are all ways by which mode ipvs gets a connection, and from whom.
var waysIn = []struct{ from, to string }{
	{"client", "10.96.0.7:80"},
	{"node-a", "10.96.0.7:80"},
	{"outside", "203.0.113.100:80"},
	{"outside", "192.168.6.140:30080"},
	{"client", "10.96.0.8:80"},
	{"node-a", "10.96.0.8:80"},
	{"client", "203.0.113.101:80"},
	{"outside", "203.0.113.101:80"},
	{"node-a", "203.0.113.100:80"},
}

// held is a connection that has to live on.
type held struct {
	net.Conn
	name string
}

func leave(t *testing.T, successor string) {
	c := newCluster(t, "ipvs"+soon, "testdata/live")
	if err := os.WriteFile(filepath.Join(c.manifests, "local.yaml"), []byte(localService), 0o644); err != nil {
		t.Fatal(err)
	}
	c.served(t, "10.96.0.8:80")
	old := c.hold(t, "of mode ipvs")
	step := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { f(t); c.live(t, old) })
	}
	var late []held
	step("another mode takes over", func(t *testing.T) {
		c.press(t, func() {
			c.change(t, "ipvs", successor, func() { old = append(old, c.hold(t, "made meanwhile")...) })
			late = c.hold(t, "of mode "+successor)
		})
	})
	step("IPVS takes no more connections", func(t *testing.T) {
		if servers := c.run(t, "ipvsadm", "-Sn"); strings.Contains(servers, "-w 1") {
			t.Errorf("IPVS still takes connections:\n%s", servers)
		}
		c.undisturbed(t)
	})
	step("ipvs again, and back", func(t *testing.T) {
		c.press(t, func() { c.change(t, successor, "ipvs", nil) })
		c.undisturbed(t)
		c.press(t, func() { c.change(t, "ipvs", successor, nil) })
	})
	t.Run("all gone with the last connection", func(t *testing.T) {
		for _, h := range old {
			reset(h.Conn)
		}
		c.live(t, late)
		c.untilGone(t)
		c.live(t, late)
		c.undisturbed(t)
	})
	t.Run("cleanup at any time", func(t *testing.T) {
		c.change(t, successor, "ipvs", nil)
		c.hold(t, "of mode ipvs")
		c.change(t, "ipvs", successor, nil)
		if c.leftOfIPVS(t) == "" {
			t.Error("nothing is left for connections that exist")
		}
		c.run(t, c.binary, "vip", "cleanup", "--mode", "ipvs")
		if left := c.leftOfIPVS(t); left != "" {
			t.Errorf("vip cleanup leaves:\n%s", left)
		}
		c.live(t, late)
	})
}

// undisturbed asks whether the mode in use finds the kernel as it should be.
func (c *cluster) undisturbed(t *testing.T) {
	t.Helper()
	if out := c.run(t, c.binary, "vip", "diff", "--conf", filepath.Join(c.Dir, "node-a.Corefile")); out != "" {
		t.Errorf("vip diff: %s", out)
	}
}

// served waits until an address answers.
func (c *cluster) served(t *testing.T, to string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		conn, err := c.Dial(ctx, "client", "tcp", to)
		switch {
		case err == nil:
			reset(conn)
			return
		case ctx.Err() != nil:
			t.Fatalf("%s: %v", to, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// hold makes a connection by each way.
func (c *cluster) hold(t *testing.T, when string) []held {
	t.Helper()
	var list []held
	for _, w := range waysIn {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		conn, err := c.connect(ctx, w.from, w.to)
		cancel()
		name := fmt.Sprintf("%s to %s, %s", w.from, w.to, when)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		list = append(list, held{conn, name})
	}
	c.live(t, list)
	return list
}

// live has all connections answer.
func (c *cluster) live(t *testing.T, list []held) {
	t.Helper()
	for _, h := range list {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if said, err := c.say(ctx, h); err != nil || !strings.HasPrefix(said, "pod ") {
			t.Errorf("%s: %q, %v", h.name, said, err)
		}
		cancel()
	}
}

// change reloads the first node's signpost with another mode, and calls
// meanwhile until that has taken over.
func (c *cluster) change(t *testing.T, before, after string, meanwhile func()) {
	t.Helper()
	from := len(c.running["node-a"].Output())
	path := filepath.Join(c.Dir, "node-a.Corefile")
	err := os.WriteFile(path, []byte(c.Corefile("node-a", after+soon, c.manifests)), 0o644)
	if err = errors.Join(err, c.running["node-a"].Signal(unix.SIGHUP)); err != nil {
		t.Fatal(err)
	}
	if meanwhile != nil {
		meanwhile()
	}
	// The guest takes long for a program's start, of which mode iptables needs some.
	replaced := `msg="dataplane replaced" part=vip before=` + before
	for began := time.Now(); !strings.Contains(c.running["node-a"].Output()[from:], replaced); {
		if time.Since(began) > 4*patience {
			t.Fatalf("not replaced by mode %s: %s", after, c.running["node-a"].Output()[from:])
		}
		<-time.After(10 * time.Millisecond)
	}
}

// press has clients connect by all ways, 200 times a second if the machine can,
// while f runs and for a moment longer. None may fail or need a second attempt.
func (c *cluster) press(t *testing.T, f func()) {
	t.Helper()
	done, clients := make(chan struct{}), sync.WaitGroup{}
	clients.Go(func() {
		const perSecond = 200
		connections := lab.Load(perSecond, done, func(n int) {
			way := waysIn[n%len(waysIn)]
			c.brief(t, way.from, way.to)
		})
		t.Logf("%d connections", connections)
	})
	f()
	<-time.After(300 * time.Millisecond)
	close(done)
	clients.Wait()
}

func (c *cluster) brief(t *testing.T, from, to string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	conn, err := c.connect(ctx, from, to)
	if err != nil {
		t.Errorf("%s to %s: %v", from, to, err)
		return
	}
	defer reset(conn)
	if again, err := lab.Retransmissions(conn); err != nil || again > 0 {
		t.Errorf("%s to %s: %d packets were lost, %v", from, to, again, err)
	}
	if said, err := c.say(ctx, conn); err != nil || !strings.HasPrefix(said, "pod ") {
		t.Errorf("%s to %s: %q, %v", from, to, said, err)
	}
}

func (c *cluster) run(t *testing.T, command string, args ...string) string {
	t.Helper()
	out, err := c.Exec(t.Context(), "node-a", command, args...)
	if err != nil {
		t.Error(err)
	}
	return out
}

// reset ends a connection so that the kernel forgets it soon.
func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// leftOfIPVS shows what the first node's kernel still has of mode ipvs.
func (c *cluster) leftOfIPVS(t *testing.T) string {
	t.Helper()
	const look = `ipvsadm -Ln | tail -n +4; nft list tables | grep ipvs; ip -o address | grep ipvs; ip rule | grep -w 84; ip route show table all proto 84; true`
	return strings.TrimSpace(c.run(t, "sh", "-c", look))
}

// untilGone waits until nothing is left of mode ipvs: the kernel remembers a
// connection for ten seconds after a reset.
func (c *cluster) untilGone(t *testing.T) {
	t.Helper()
	const limit = 90 * time.Second
	began := time.Now()
	for time.Since(began) < limit {
		if c.leftOfIPVS(t) == "" {
			t.Logf("gone after %s", time.Since(began).Round(time.Second))
			return
		}
		<-time.After(500 * time.Millisecond)
	}
	lines := strings.Split(c.leftOfIPVS(t), "\n")
	t.Errorf("left after %s:\n%s", limit, strings.Join(slices.Compact(lines), "\n"))
}
