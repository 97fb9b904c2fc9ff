package nodeaddrs

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"signpost/discovery"
	"signpost/vip"
)

// fakeSystem is a machine whose addresses a test sets.
type fakeSystem struct {
	mu      sync.Mutex
	machine machine
	err     error
	lists   int
	changed func()
	refuses bool // to tell of changes
}

func (f *fakeSystem) system() system {
	return system{
		list: func() (machine, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lists++
			return f.machine, f.err
		},
		watch: func(ctx context.Context, changed func()) error {
			f.mu.Lock()
			f.changed = changed
			refuses := f.refuses
			f.mu.Unlock()
			if refuses {
				return errors.New("not permitted")
			}
			<-ctx.Done()
			return nil
		},
	}
}

func (f *fakeSystem) set(err error, addrs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.machine, f.err = machine{}, err
	for _, a := range addrs {
		f.machine.addrs = append(f.machine.addrs, address{netip.MustParseAddr(a), "eth0"})
	}
}

func start(t *testing.T, f *fakeSystem, config Config) *Source {
	t.Helper()
	config.Name = "n1"
	s, err := newSource(config, f.system())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return s
}

func synced() *discovery.Store {
	store := discovery.NewStore()
	store.Update((*discovery.Tx).MarkSynced)
	return store
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { t.Parallel(); synctest.Test(t, f) })
}

func wait(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

func TestSource(t *testing.T) {
	t.Parallel()
	bubble(t, "P-23 not known before the store is synced", func(t *testing.T) {
		f, store := &fakeSystem{}, discovery.NewStore()
		f.set(nil, "10.0.0.1")
		s := start(t, f, Config{Store: store, Mode: "ipvs"})
		if s.Current() != nil {
			t.Error("known before the store is synced")
		}
		store.Update((*discovery.Tx).MarkSynced)
		synctest.Wait()
		if n := s.Current(); n == nil || !slices.Equal(n.NodePortAddrs, list("10.0.0.1")) {
			t.Errorf("node: got %+v", n)
		}
	})
	bubble(t, "F-25 an address comes: at once; nothing else does", func(t *testing.T) {
		f := &fakeSystem{}
		f.set(nil, "10.0.0.1")
		s := start(t, f, Config{Store: synced(), Mode: "ipvs"})
		before := s.Current()
		changed := s.Changed(before)
		f.changed()
		wait(100 * time.Millisecond)
		if s.Current() != before {
			t.Error("nothing differs, and the node is another one")
		}
		f.set(nil, "10.0.0.1", "10.0.0.2")
		f.changed()
		wait(100 * time.Millisecond)
		select {
		case <-changed:
		default:
			t.Error("the change is not told")
		}
		if got := s.Current().NodePortAddrs; !slices.Equal(got, list("10.0.0.1", "10.0.0.2")) {
			t.Errorf("node port addresses: got %v", got)
		}
	})
	bubble(t, "F-25 nobody tells of changes: they are found within 5 s", func(t *testing.T) {
		f := &fakeSystem{refuses: true}
		f.set(nil, "10.0.0.1")
		s := start(t, f, Config{Store: synced(), Mode: "ipvs"})
		f.set(nil, "10.0.0.2")
		wait(6 * time.Second)
		if got := s.Current().NodePortAddrs; !slices.Equal(got, list("10.0.0.2")) {
			t.Errorf("node port addresses: got %v", got)
		}
	})
	bubble(t, "X05 a list that can't be read changes nothing", func(t *testing.T) {
		f := &fakeSystem{}
		f.set(nil, "10.0.0.1")
		s := start(t, f, Config{Store: synced(), Mode: "ipvs"})
		f.set(errors.New("dump interrupted"))
		wait(time.Minute)
		if got := s.Current().NodePortAddrs; !slices.Equal(got, list("10.0.0.1")) {
			t.Errorf("node port addresses: got %v", got)
		}
	})
	bubble(t, "P-21 the Node object changes, services don't matter", func(t *testing.T) {
		f, store := &fakeSystem{}, synced()
		f.set(nil, "10.0.0.1")
		s := start(t, f, Config{Store: store})
		store.Update(func(tx *discovery.Tx) { tx.PutNode(&discovery.Node{Name: "n1", Zone: "a"}) })
		synctest.Wait()
		n := s.Current()
		if n.Zone != "a" {
			t.Errorf("zone: got %q, want a", n.Zone)
		}
		store.Update(func(tx *discovery.Tx) { tx.PutService(&discovery.Service{Key: discovery.Key{Name: "x"}}) })
		synctest.Wait()
		if s.Current() != n {
			t.Error("a service changed, and the node is another one")
		}
	})
	bubble(t, "F-16 the source tells the service ranges: added to those configured, and none of them is this machine's", func(t *testing.T) {
		f, store := &fakeSystem{}, synced()
		f.set(nil, "10.0.0.1", "10.96.0.1")
		configured, told := netip.MustParsePrefix("10.97.0.0/16"), netip.MustParsePrefix("10.96.0.0/16")
		s := start(t, f, Config{Store: store, Mode: "ipvs", ServiceCIDRs: []netip.Prefix{configured}})
		store.Update(func(tx *discovery.Tx) { tx.PutServiceCIDRs([]netip.Prefix{told, configured}) })
		synctest.Wait()
		n := s.Current()
		if !slices.Equal(n.ServiceCIDRs, []netip.Prefix{configured, told}) || !slices.Equal(n.NodePortAddrs, list("10.0.0.1")) {
			t.Errorf("ranges %v, node port addresses %v", n.ServiceCIDRs, n.NodePortAddrs)
		}
	})
	bubble(t, "P-20 B79 pod ranges of the Node object: waited for, followed, given up after 5 minutes", func(t *testing.T) {
		f, store := &fakeSystem{}, synced()
		s := start(t, f, Config{Store: store, PodCIDRsFromNode: true})
		wait(time.Minute)
		if s.Current() != nil {
			t.Error("known without the pod ranges")
		}
		for _, cidr := range []string{"172.16.1.0/24", "172.16.2.0/24"} {
			p := netip.MustParsePrefix(cidr)
			store.Update(func(tx *discovery.Tx) {
				tx.PutNode(&discovery.Node{Name: "n1", PodCIDRs: []netip.Prefix{p}})
			})
			synctest.Wait()
			if n := s.Current(); n == nil || !slices.Equal(n.Detector.CIDRs, []netip.Prefix{p}) {
				t.Errorf("node: got %+v, want pod range %s", n, p)
			}
		}
		late := start(t, f, Config{Store: synced(), PodCIDRsFromNode: true})
		wait(6 * time.Minute)
		if n := late.Current(); n == nil || !n.Detector.None() {
			t.Errorf("after 5 minutes: got %+v, want a node without a detector", n)
		}
	})
}

// TestHostSystem reads the real machine, and ends without leaving anything
// behind.
func TestHostSystem(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	m, err := hostSystem().list()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(m.addrs, func(a address) bool { return a.addr.IsLoopback() && a.iface == "lo" }) {
		t.Errorf("addresses: got %v, want a loopback address among them", m.addrs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- hostSystem().watch(ctx, func() {}) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}

	s, err := New(Config{Store: synced(), Mode: "userspace"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	go func() { done <- s.Run(ctx) }()
	<-s.Changed(nil)
	if n := s.Current(); n.Name == "" || len(n.Addrs) == 0 {
		t.Errorf("node: got %+v, want a name and addresses", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n, err := Once(Config{Mode: "userspace"}, &discovery.Snapshot{}); err != nil || !n.Equal(s.Current()) {
		t.Errorf("looking once: got %+v and error %v, want what the source says", n, err)
	}
}

func ExampleParseSelection() {
	s, err := ParseSelection([]string{"192.168.0.0/16"})
	if err != nil {
		return
	}
	source, err := New(Config{Name: "n1", Store: discovery.NewStore(), Mode: "nftables", NodePorts: s})
	if err != nil {
		return
	}
	var _ vip.NodeSource = source // known once it runs and the store is synced
}
