package conformance

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signpost/discovery"
	"signpost/integration/lab"
)

// Of the load: connections in a second, and for how long each thing that is
// done under it takes place.
const (
	connectionsPerSecond = 200
	underLoad            = 1500 * time.Millisecond
)

// live lets clients connect to an endpoint that stays while all around it
// changes: not one connection may fail, or have to be tried again (L-01, and
// property 5 of the cases).
func (r *runner) live(t *testing.T) {
	f := feature{world: `
		service a/constant ips=10.96.0.7 ports=80/P->30080 type=NodePort
		slice s ports=8080/P
		endpoint 172.16.0.1 node=n1
		service a/other ips=10.96.0.8 ports=80/P
		slice s ports=8080/P
		endpoint 172.16.0.1 node=n1
		endpoint 172.16.0.2 node=n1
		endpoint 172.16.0.3 node=n1
		endpoint 172.16.1.1 node=n2`}
	store, at := worldStore(t, f)
	r.fresh(t)
	p := r.launch(t, store, at)

	t.Run("other services change", func(t *testing.T) {
		r.underLoad(t, func(ctx context.Context) {
			for n := 0; ctx.Err() == nil; n++ {
				revision := store.Update(func(tx *discovery.Tx) { churn(tx, store.Current(), n) }).Revision
				if n%20 == 0 {
					p.await(t, revision)
				}
				<-time.After(2 * time.Millisecond)
			}
		})
		p.await(t, store.Current().Revision)
	})
	if r.suite.Limits.InProcess {
		t.Logf("not tested: restarts: %s ends with its process", p.driver.Name())
		return
	}
	t.Run("restarts", func(t *testing.T) {
		r.underLoad(t, func(ctx context.Context) {
			for n := 0; ctx.Err() == nil; n++ {
				p.stop()
				p.driver.close(t)
				store.Update(func(tx *discovery.Tx) { churn(tx, store.Current(), n) })
				p = r.launch(t, store, at)
			}
		})
	})
}

// churn changes the services that are not constant: their endpoints come and
// go, one is deleted and made again.
func churn(tx *discovery.Tx, now *discovery.Snapshot, n int) {
	for key, s := range now.Services.All() {
		if key.Name == "constant" {
			continue
		}
		if n%10 == 9 && strings.HasPrefix(key.Name, "new") {
			tx.DeleteService(key)
			continue
		}
		next, slice := *s, *s.Slices[0]
		slice.Endpoints = append([]discovery.Endpoint{}, slice.Endpoints...)
		for i := range slice.Endpoints {
			slice.Endpoints[i].Ready = (n+i)%3 > 0
			slice.Endpoints[i].Serving = slice.Endpoints[i].Ready
		}
		next.Slices = []*discovery.Slice{&slice}
		tx.PutService(&next)
	}
	added := &discovery.Service{
		Key:        discovery.Key{Namespace: "ip4-tcp", Name: fmt.Sprintf("new-%d", n%7)},
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 1, byte(n % 7)})},
		Ports:      []discovery.Port{{Port: 80, Protocol: discovery.TCP}},
		Slices: []*discovery.Slice{{
			Ports:     []discovery.EndpointPort{{Port: 8080, Protocol: discovery.TCP}},
			Endpoints: []discovery.Endpoint{{Addr: netip.AddrFrom4([4]byte{172, 16, 0, byte(1 + n%9)}), Ready: true, Serving: true}},
		}},
	}
	tx.PutService(added)
}

// underLoad runs f while clients connect to the constant service, and reports
// those that did not reach its endpoint at the first attempt.
func (r *runner) underLoad(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), underLoad)
	defer cancel()
	var clients sync.WaitGroup
	var connections, repeated atomic.Int64
	clients.Go(func() {
		lab.Load(connectionsPerSecond, ctx.Done(), func(n int) { r.connect(t, n, &connections, &repeated) })
	})
	f(ctx)
	clients.Wait()
	t.Logf("%d connections, %d of them at the second attempt", connections.Load(), repeated.Load())
}

// connect makes the n-th connection.
func (r *runner) connect(t *testing.T, n int, connections, repeated *atomic.Int64) {
	from := []string{"p5", "outside", node, "p6", "outside"}[n%5]
	to := []string{"10.96.0.7:80", "10.96.0.7:80", "10.96.0.7:80", "[fd00:96::7]:80", "192.168.6.1:30080"}[n%5]
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), r.suite.Patience)
	defer cancel()
	answer, again, err := r.greet(ctx, from, to)
	connections.Add(1)
	switch {
	case err != nil:
		t.Errorf("connection %d, %s to %s: %v", n, from, to, err)
	case !strings.HasPrefix(answer, "pod p1 at"):
		t.Errorf("connection %d, %s to %s: %q", n, from, to, answer)
	case again > 0:
		repeated.Add(1)
		t.Errorf("connection %d, %s to %s: its first packet was lost, and sent %d times more", n, from, to, again)
	}
}

// greet connects and returns what was said, and how often the first packet had
// to be sent again: the clock would also tell of a machine that is busy.
func (r *runner) greet(ctx context.Context, from, to string) (answer string, again uint32, err error) {
	own := net.Dialer{LocalAddr: &net.TCPAddr{Port: r.site.clients.Next()}}
	c, err := r.site.lab.DialWith(ctx, from, own, "tcp", to)
	if err != nil {
		return "", 0, err
	}
	defer c.Close()
	if again, err = lab.Retransmissions(c); err != nil {
		return "", 0, err
	}
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return "", again, err
	}
	if _, err := c.Write([]byte("hello\n")); err != nil {
		return "", again, err
	}
	buf := make([]byte, 256)
	n, err := c.Read(buf)
	return string(buf[:n]), again, err
}
