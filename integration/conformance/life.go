package conformance

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"signpost/vip"
	"signpost/vip/viptest"
)

// life follows one program from its start to its end and beyond.
func (r *runner) life(t *testing.T) {
	d := r.fresh(t)
	clean := r.dump(t, node)
	f := feature{
		world: "service a/web type=NodePort ips=10.96.0.7 ports=80/P->30080 affinity=1h" + threeEndpoints,
		packets: `
		p3      10.96.0.7:80/P       p1 p2 q1
		outside 192.168.6.1:30080/P  p1 p2 q1 +snat`,
	}
	want, probes := mustState(t, f), mustProbes(t, r, f)
	held := d.apply(t, nil, want)
	r.check(t, "started", probes)

	writes, contents := r.writes(t), r.dump(t, node)
	d.apply(t, held, want)
	d.apply(t, nil, want)
	if now := r.writes(t); now != writes {
		t.Errorf("applying what is there wrote to the kernel %d times, want never", now-writes)
	}

	t.Run("F-18 L-01 connections outlive their endpoint and a restart", func(t *testing.T) { d = r.outlives(t, d, want) })
	if !r.suite.Limits.InProcess {
		d.close(t)
		r.check(t, "L-01 after the program has ended", probes)
		d = r.start(t, node)
		d.apply(t, nil, want)
	}
	if now := r.dump(t, node); now != contents {
		t.Errorf("in the end the kernel holds:\n%s\nat the start:\n%s", now, contents)
	}
	for range 2 { // B65: idempotent
		d.cleanup(t)
		if left := r.dump(t, node); left != clean {
			t.Errorf("after cleanup the kernel holds:\n%s\nwant:\n%s", left, clean)
		}
	}
	for i := range probes {
		probes[i].want = viptest.Outcome{Action: viptest.Pass}
	}
	r.check(t, "after cleanup", probes[len(probes)-2:])
	t.Run("B44 the node's loopback stays its own", r.loopbackIsOwn)
}

// outlives opens a connection, takes its endpoint away, and lets another
// program take over; the connection does not notice.
func (r *runner) outlives(t *testing.T, d *driver, want *vip.State) *driver {
	c := r.open(t, "p3", "10.96.0.7:80")
	first := c.say(t)
	var others []string
	for _, e := range []string{"172.16.0.1 node=n1", "172.16.0.2 node=n1", "172.16.1.1 node=n2"} {
		if a, _, _ := strings.Cut(e, " "); !strings.Contains(first, a+":") {
			others = append(others, "endpoint "+e)
		}
	}
	without := mustState(t, feature{world: "service a/web type=NodePort ips=10.96.0.7 ports=80/P->30080 affinity=1h\nslice s ports=8080/P\n" + strings.Join(others, "\n")})
	held := d.apply(t, want, without)
	if now := c.say(t); now != first {
		t.Errorf("after its endpoint went: %q, before %q", now, first)
	}
	if again := r.open(t, "p3", "10.96.0.7:80").say(t); again == first {
		t.Errorf("a new connection went to the endpoint that is gone: %q", again)
	}
	if r.suite.Limits.InProcess {
		d.apply(t, held, want)
		return d
	}
	d.close(t)
	d = r.start(t, node)
	d.apply(t, nil, without)
	d.apply(t, without, want)
	if now := c.say(t); now != first {
		t.Errorf("after a restart: %q, before %q", now, first)
	}
	return d
}

// connection is one that stays open.
type connection struct {
	net.Conn
	in *bufio.Reader
}

func (r *runner) open(t *testing.T, host, to string) connection {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), r.suite.Patience)
	defer cancel()
	c, err := r.site.lab.Dial(ctx, host, "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return connection{c, bufio.NewReader(c)}
}

// say says something and returns the pod that answers.
func (c connection) say(t *testing.T) string {
	t.Helper()
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		t.Fatal(err)
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	who, _, _ := strings.Cut(line, ", you are")
	return who
}

// loopbackIsOwn: nothing is ever done for node ports on 127.0.0.1 that lets
// neighbours in (CVE-2020-8558).
func (r *runner) loopbackIsOwn(t *testing.T) {
	err := r.site.lab.RunIn(node, func() error {
		value, err := os.ReadFile("/proc/sys/net/ipv4/conf/all/route_localnet")
		if err == nil && strings.TrimSpace(string(value)) != "0" {
			t.Errorf("route_localnet is %s", value)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
