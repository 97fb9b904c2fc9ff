package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signpost/integration/lab"
)

// TestLive…: connections to an endpoint that stays do not notice what happens to
// signpost and to other Services (L-01, X13, X20).
func TestLiveNftables(t *testing.T) { live(t, "nftables") }

func TestLiveIptables(t *testing.T) {
	needMode(t, "iptables", "REQUIRE_IPTABLES")
	live(t, "iptables")
}

// TestLiveIPVS needs a kernel with IPVS; "make integration-ipvs" has one.
func TestLiveIPVS(t *testing.T) {
	needMode(t, "ipvs", "REQUIRE_IPVS")
	live(t, "ipvs")
}

// TestLiveUserspace has no restarts: the process is what carries connections.
func TestLiveUserspace(t *testing.T) {
	c := newCluster(t, "userspace", "testdata/live")
	c.load(t, c.churn)
	c.load(t, c.reload)
}

func live(t *testing.T, mode string) {
	c := newCluster(t, mode, "testdata/live")
	kill := func() { _ = c.running["node-a"].Kill() }
	stop := func() {
		if err := c.running["node-a"].Stop(); err != nil {
			t.Errorf("signpost ended: %v", err)
		}
	}
	for _, step := range []struct {
		name string
		do   func(t *testing.T)
	}{
		{"endpoints of other Services come and go", c.churn},
		{"killed, and started again", func(t *testing.T) { c.again(t, kill) }},
		{"ended, and started again", func(t *testing.T) { c.again(t, stop) }},
		{"its configuration is changed", c.reload},
		{"killed in the midst of changes", func(t *testing.T) {
			c.again(t, func() {
				c.write(t, 1)
				kill()
				c.write(t, 2)
			})
		}},
	} {
		t.Run(step.name, func(t *testing.T) { c.load(t, step.do) })
	}
	t.Run("B49 B51 B53 datagrams", c.datagrams)
	t.Run("X02 everything flushed", c.flushed)
	t.Run("what stays, and what cleanup leaves", c.cleanup)
}

// perSecond is how many connections a second are made. The guest that has IPVS
// is a process of this machine, and several times slower.
func (c *cluster) perSecond() int {
	if c.mode == "ipvs" {
		return 50
	}
	return 200
}

func (c *cluster) load(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	c.underLoad(t, func() {
		f(t)
		<-time.After(200 * time.Millisecond) // what comes late is late under load
	})
}

// underLoad lets clients connect while f runs. None may fail, or need a second
// attempt.
func (c *cluster) underLoad(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	var clients sync.WaitGroup
	clients.Go(func() {
		connections := lab.Load(c.perSecond(), done, func(n int) { c.once(t, n) })
		t.Logf("%d connections", connections)
	})
	f()
	close(done)
	clients.Wait()
}

// ways lead to the constant Service.
var ways = []struct{ from, to string }{
	{"client", "10.96.0.7:80"}, {"node-a", "10.96.0.7:80"}, {"outside", "192.168.6.140:30080"}, {"outside", "203.0.113.100:80"},
}

func (c *cluster) once(t *testing.T, n int) {
	from, to := ways[n%len(ways)].from, ways[n%len(ways)].to
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	conn, err := c.connect(ctx, from, to)
	if err != nil {
		t.Errorf("connection %d, %s to %s: %v", n, from, to, err)
		return
	}
	defer conn.Close()
	again, err := lab.Retransmissions(conn)
	if err != nil || again > 0 {
		t.Errorf("connection %d, %s to %s: %d packets were lost, %v", n, from, to, again, err)
	}
	if said, err := c.say(ctx, conn); err != nil || !strings.HasPrefix(said, "pod constant at ") {
		t.Errorf("connection %d, %s to %s: %q, %v", n, from, to, said, err)
	}
}

// churn changes other Services for a while, at twenty changes a second.
func (c *cluster) churn(t *testing.T) {
	const changes = 40
	for n := range changes {
		c.write(t, n)
		<-time.After(50 * time.Millisecond)
	}
}

// write writes other Services, whose endpoints depend on n.
func (c *cluster) write(t *testing.T, n int) {
	t.Helper()
	var text strings.Builder
	for i := range 10 {
		if (n+i)%7 == 0 {
			continue
		}
		fmt.Fprintf(&text, `---
apiVersion: v1
kind: Service
metadata: {name: other-%[1]d, namespace: default}
spec: {clusterIP: 10.96.1.%[1]d, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: other-%[1]d, namespace: default, labels: {kubernetes.io/service-name: other-%[1]d}}
addressType: IPv4
ports: [{port: 8080}]
endpoints:
`, i)
		for e := range (n+i)%4 + 1 {
			fmt.Fprintf(&text, "- {addresses: [172.16.85.%d], nodeName: node-a}\n", 100+(n+e)%20)
		}
	}
	next := filepath.Join(c.Dir, "others.yaml")
	err := os.WriteFile(next, []byte(text.String()), 0o644)
	if err = errors.Join(err, os.Rename(next, filepath.Join(c.manifests, "others.yaml"))); err != nil {
		t.Fatal(err)
	}
}

// again ends signpost on the first node and starts it again, several times.
func (c *cluster) again(t *testing.T, end func()) {
	t.Helper()
	const times = 5
	for range times {
		end()
		c.start(t, "node-a")
		c.ready(t, "node-a")
	}
}

// reload changes the Corefile, first to one that is wrong, and waits for the
// server to say so.
func (c *cluster) reload(t *testing.T) {
	path := filepath.Join(c.Dir, "node-a.Corefile")
	right := strings.Replace(c.corefile("node-a"), "ttl 5", "ttl 6", 1)
	for _, step := range []struct{ text, says string }{
		{strings.Replace(right, "mode "+c.mode, "mode kernelspace", 1), "kernelspace"},
		{right, "reloaded"},
	} {
		before := len(c.running["node-a"].Output())
		if err := os.WriteFile(path, []byte(step.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := c.running["node-a"].Signal(unix.SIGHUP); err != nil {
			t.Fatal(err)
		}
		c.says(t, before, step.says)
	}
}

// says waits until signpost's log has a word after an offset.
func (c *cluster) says(t *testing.T, after int, word string) {
	t.Helper()
	limit := time.After(patience)
	for {
		text := c.running["node-a"].Output()
		if strings.Contains(strings.ToLower(text[min(after, len(text)):]), word) {
			return
		}
		select {
		case <-limit:
			t.Fatalf("signpost does not say %q: %s", word, text[min(after, len(text)):])
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// flushed has another program flush all rules: within two seconds every way to
// the Service works again.
func (c *cluster) flushed(t *testing.T) {
	if _, err := c.Exec(t.Context(), "node-a", "nft", "flush", "ruleset"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for way := 0; way < len(ways); {
		ctx, cancel := context.WithTimeout(t.Context(), silence)
		said, err := c.hear(ctx, ways[way].from, "tcp", ways[way].to)
		cancel()
		switch took := time.Since(start); {
		case err == nil:
			way++
		case took > 2*time.Second:
			t.Fatalf("%+v after %s: %q, %v", ways[way], took, said, err)
		}
	}
	t.Logf("healed after %s", time.Since(start))
}

// cleanup ends signpost for good: its rules stay and work. Then "vip cleanup"
// leaves nothing, however often it is called.
func (c *cluster) cleanup(t *testing.T) {
	c.underLoad(t, func() {
		if err := c.running["node-a"].Stop(); err != nil {
			t.Errorf("signpost ended: %v", err)
		}
		<-time.After(100 * time.Millisecond)
	})
	if c.traces(t) == "" {
		t.Error("the rules are gone with the process")
	}
	for range 2 {
		if _, err := c.Exec(t.Context(), "node-a", c.binary, "vip", "cleanup"); err != nil {
			t.Error(err)
		}
		if traces := c.traces(t); traces != "" {
			t.Errorf("vip cleanup leaves:\n%s", traces)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	if said, err := c.hear(ctx, "client", "tcp", "10.96.0.7:80"); err == nil {
		t.Errorf("after vip cleanup: %q", said)
	}
}

// traces returns what shows in the first node's kernel that signpost works there.
func (c *cluster) traces(t *testing.T) string {
	t.Helper()
	const look = `nft list ruleset | grep -i signpost; ip -o address | grep -i signpost; ip rule | grep -w 84; if [ -e /proc/net/ip_vs ]; then ipvsadm -Sn; fi; true`
	out, err := c.Exec(t.Context(), "node-a", "sh", "-c", look)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}
