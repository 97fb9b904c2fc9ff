package conntrack

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signpost/vip"
	"signpost/vip/viptest"
)

// The services that the flows below go to.
const world = `
node n1 addrs=192.168.6.140 nodeports=192.168.6.140 pods=10.244.0.0/16
service default/dns type=NodePort ips=10.96.0.10 ports=dns:53/UDP->30053,tcp:53/TCP
slice dns-1 ports=dns:5353/UDP,tcp:5353/TCP
endpoint 10.244.0.1 node=n1
endpoint 10.244.0.2 node=n2
endpoint 10.244.0.3 node=n2 serving terminating
endpoint 10.244.0.4 node=n2 notready
service default/empty ips=10.96.0.11 ports=dns:53/UDP
`

func parse(t *testing.T, text string) (*vip.State, viptest.World) {
	t.Helper()
	w, err := viptest.ParseWorld(text)
	if err != nil {
		t.Fatal(err)
	}
	return vip.Planner{}.Plan(w.Snapshot, w.Node), w
}

func flow(destination, reply string) Flow {
	return Flow{
		Client:      netip.MustParseAddrPort("10.244.9.9:40000"),
		Destination: netip.MustParseAddrPort(destination), ReplySource: netip.MustParseAddrPort(reply),
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	state, w := parse(t, world)
	gone, err := vip.ParseFrontend("10.96.0.99:53/UDP")
	if err != nil {
		t.Fatal(err)
	}
	j := newJudge(state, w.Snapshot, map[vip.Frontend]bool{gone: true})
	for _, c := range []struct {
		name, destination, reply string
		stale                    bool
	}{
		{"endpoint in use", "10.96.0.10:53", "10.244.0.1:5353", false},
		{"B49 endpoint gone", "10.96.0.10:53", "10.244.0.77:5353", true},
		{"key is address and port, not the address", "10.96.0.10:53", "10.244.0.1:53", true},
		{"still serving, though terminating", "10.96.0.10:53", "10.244.0.3:5353", false},
		{"not serving", "10.96.0.10:53", "10.244.0.4:5353", true},
		{"never translated (k/k#48370)", "10.96.0.10:53", "10.96.0.10:53", true},
		{"B51 no endpoints at all", "10.96.0.11:53", "10.244.0.1:5353", true},
		{"B52 service deleted", "10.96.0.99:53", "10.244.0.1:5353", true},
		{"address of a deleted service, never translated", "10.96.0.99:53", "10.96.0.99:53", false},
		{"node port in use", "192.168.6.140:30053", "10.244.0.2:5353", false},
		{"node port, endpoint gone", "192.168.6.140:30053", "10.244.0.77:5353", true},
		{"port of the node that is no service's", "192.168.6.140:5353", "10.244.0.77:5353", false},
		{"node port's number at an address that has none", "192.168.6.141:30053", "10.244.0.77:5353", false},
		{"nothing of ours", "8.8.8.8:53", "8.8.8.8:53", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := j.stale(flow(c.destination, c.reply)); got != c.stale {
				t.Errorf("stale = %t, want %t", got, c.stale)
			}
		})
	}
}

// table is a connection tracking table in memory.
type table struct {
	mu    sync.Mutex
	flows []Flow
	dumps int
	err   error
}

func (f *table) UDP(context.Context) ([]Flow, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dumps++
	return append([]Flow(nil), f.flows...), f.err
}

func (f *table) Delete(_ context.Context, gone Flow) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, have := range f.flows {
		if have == gone {
			f.flows = append(f.flows[:i:i], f.flows[i+1:]...)
			return nil
		}
	}
	return errors.New("no such flow")
}

type status struct{ *vip.Cell[vip.Status] }

func (s status) Status() *vip.Status { return s.Current() }

// TestRun follows a controller's status: passes happen after changes that
// concern UDP and now and then, never for TCP alone.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &table{flows: []Flow{flow("10.96.0.10:53", "10.244.0.1:5353"), flow("10.96.0.10:53", "10.244.0.77:5353")}}
		controller := status{vip.NewCell(&vip.Status{})}
		r := New(Config{Status: controller, Table: fake})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()

		expect := func(when string, flows, dumps int) {
			t.Helper()
			synctest.Wait()
			fake.mu.Lock()
			defer fake.mu.Unlock()
			if len(fake.flows) != flows || fake.dumps != dumps {
				t.Errorf("%s: %d flows after %d passes, want %d after %d", when, len(fake.flows), fake.dumps, flows, dumps)
			}
		}
		set := func(text string) {
			state, w := parse(t, text)
			controller.Set(&vip.Status{Snapshot: w.Snapshot, Desired: state, Applied: state})
		}
		expect("before anything is applied", 2, 0)
		time.Sleep(2 * time.Minute)
		expect("P-23 still nothing applied", 2, 0)
		set(world)
		expect("the first state", 1, 1)
		set(world + "service default/web ips=10.96.0.20 ports=http:80\n")
		expect("the same services anew, in other objects", 1, 2)
		set("node n1 addrs=192.168.6.140 pods=10.244.0.0/16\n")
		expect("B52 the service is gone", 0, 3)
		time.Sleep(90 * time.Second)
		expect("the periodic pass", 0, 4)

		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestRunFails keeps what it has to do until it can be done.
func TestRunFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &table{err: errors.New("table is full"), flows: []Flow{flow("10.96.0.10:53", "10.244.0.1:5353")}}
		controller := status{vip.NewCell(&vip.Status{})}
		r := New(Config{Status: controller, Table: fake})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		for _, text := range []string{world, "node n1 pods=10.244.0.0/16\n"} {
			state, w := parse(t, text)
			controller.Set(&vip.Status{Snapshot: w.Snapshot, Desired: state, Applied: state})
			synctest.Wait()
		}
		if r.Failed.Load() != 2 || r.Deleted.Load() != 0 {
			t.Errorf("failed %d, deleted %d, want 2 and 0", r.Failed.Load(), r.Deleted.Load())
		}
		fake.mu.Lock()
		fake.err = nil
		fake.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if r.Deleted.Load() != 1 {
			t.Errorf("deleted %d, want the flow of the removed service", r.Deleted.Load())
		}
		stop()
		<-done
	})
}
