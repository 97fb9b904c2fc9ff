package discovery

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

func service(name string, endpoints ...string) *Service {
	s := &Service{Key: Key{"default", name}, Slices: []*Slice{{Name: name + "-1"}}}
	for _, a := range endpoints {
		s.Slices[0].Endpoints = append(s.Slices[0].Endpoints, Endpoint{Addr: netip.MustParseAddr(a), Ready: true})
	}
	return s
}

func TestUpdatePublishesDifferencesOnly(t *testing.T) {
	t.Parallel()
	web := service("web", "10.0.0.1")
	pod := &Pod{Key: Key{"default", "p"}, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	node := &Node{Name: "n1", Zone: "z1"}
	fill := func(tx *Tx) {
		tx.PutService(web)
		tx.PutPod(pod)
		tx.PutNode(node)
		tx.PutNamespace("default")
		tx.MarkSynced()
	}
	cases := []struct {
		name    string
		change  func(*Tx)
		differs bool
	}{
		{"nothing", func(*Tx) {}, false},
		{"all again, as copies", func(tx *Tx) {
			tx.PutService(service("web", "10.0.0.1"))
			tx.PutPod(&Pod{Key: pod.Key, Addrs: slices.Clone(pod.Addrs)})
			tx.PutNode(&Node{Name: "n1", Zone: "z1"})
			tx.PutNamespace("default")
			tx.MarkSynced()
		}, false},
		{"all deleted and put back", func(tx *Tx) {
			tx.DeleteService(web.Key)
			tx.DeletePod(pod.Key)
			tx.DeleteNode("n1")
			tx.DeleteNamespace("default")
			fill(tx)
			tx.PutService(service("web", "10.0.0.1"))
		}, false},
		{"changed and changed back", func(tx *Tx) {
			tx.PutService(service("web", "10.0.0.2"))
			tx.PutService(service("web", "10.0.0.1"))
			tx.PutNode(&Node{Name: "n1", Zone: "z2"})
			tx.PutNode(&Node{Name: "n1", Zone: "z1"})
		}, false},
		{"added and deleted", func(tx *Tx) {
			tx.PutService(service("new"))
			tx.DeleteService(Key{"default", "new"})
			tx.PutNode(&Node{Name: "n2"})
			tx.DeleteNode("n2")
		}, false},
		{"deletes of what is not there", func(tx *Tx) {
			tx.DeleteService(Key{"no", "no"})
			tx.DeletePod(Key{"no", "no"})
			tx.DeleteNode("no")
			tx.DeleteNamespace("no")
		}, false},
		{"only a trigger time", func(tx *Tx) {
			s := service("web", "10.0.0.1")
			s.Slices[0].Trigger = time.Unix(9, 0)
			tx.PutService(s)
		}, false},
		{"service", func(tx *Tx) { tx.PutService(service("web", "10.0.0.2")) }, true},
		{"pod", func(tx *Tx) { tx.DeletePod(pod.Key) }, true},
		{"node", func(tx *Tx) { tx.PutNode(&Node{Name: "n1", Zone: "z2"}) }, true},
		{"namespace", func(tx *Tx) { tx.PutNamespace("other") }, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := NewStore()
			before := store.Update(fill)
			after := store.Update(c.change)
			if c.differs != (after.Revision == before.Revision+1) || c.differs == (after == before) {
				t.Errorf("revision %d after %d, same snapshot %v; want a difference: %v",
					after.Revision, before.Revision, after == before, c.differs)
			}
			if got, _ := after.Services.Get(web.Key); !c.differs && got != web {
				t.Error("an unchanged service is another pointer")
			}
		})
	}
}

func TestPutBackKeepsThePointerBesideAChange(t *testing.T) {
	t.Parallel()
	store, web := NewStore(), service("web", "10.0.0.1")
	before := store.Update(func(tx *Tx) { tx.PutService(web) })
	after := store.Update(func(tx *Tx) {
		tx.DeleteService(web.Key)
		tx.PutService(service("web", "10.0.0.1"))
		tx.PutService(service("new"))
	})
	var changed []string
	Diff(before.Services, after.Services, func(k Key, _, _ *Service) { changed = append(changed, k.Name) })
	if !slices.Equal(changed, []string{"new"}) {
		t.Errorf("changed: %v, want only the new service", changed)
	}
	if at := after.ServicesAt(netip.MustParseAddr("10.0.0.1")); !slices.Equal(at, []Key{web.Key}) {
		t.Errorf("ServicesAt = %v", at)
	}
}

func TestWaitAndChanged(t *testing.T) {
	t.Parallel()
	store := NewStore()
	select {
	case <-store.Changed(0):
		t.Fatal("revision 0 is reported as passed")
	default:
	}
	waiting := store.Changed(0)
	store.Update(func(tx *Tx) { tx.PutNamespace("a") })
	<-waiting
	<-store.Changed(0) // closed already
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("shutting down")
	cancel(reason)
	if _, err := store.Wait(ctx, func(s *Snapshot) bool { return s.Revision > 1 }); !errors.Is(err, reason) {
		t.Errorf("Wait after the end: %v, want %v", err, reason)
	}
	if snap, err := store.Wait(ctx, func(s *Snapshot) bool { return s.Revision == 1 }); err != nil || snap.Revision != 1 {
		t.Errorf("Wait for what is true already: %v", err)
	}
}

// TestReadersSeeWholeSnapshots lets readers follow a writer that moves one
// address between two services: never is it at both, never at none.
func TestReadersSeeWholeSnapshots(t *testing.T) {
	t.Parallel()
	const revisions = 300
	store, shared := NewStore(), netip.MustParseAddr("10.0.0.1")
	store.Update(func(tx *Tx) {
		tx.PutService(service("a", "10.0.0.1"))
		tx.PutService(service("b"))
	})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			last := uint64(0)
			for last < revisions {
				snap, err := store.Wait(t.Context(), func(s *Snapshot) bool { return s.Revision > last })
				if err != nil {
					t.Error(err)
					return
				}
				last = snap.Revision
				if at := snap.ServicesAt(shared); len(at) != 1 {
					t.Errorf("revision %d: address at %v", last, at)
				}
			}
		})
	}
	for i := range revisions {
		owner, other := "b", "a"
		if i%2 == 1 {
			owner, other = other, owner
		}
		store.Update(func(tx *Tx) {
			tx.PutService(service(other))
			tx.PutService(service(owner, "10.0.0.1"))
		})
	}
	readers.Wait()
}

func TestWritersTakeTurns(t *testing.T) {
	t.Parallel()
	store := NewStore()
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 50 {
				store.Update(func(tx *Tx) {
					tx.PutService(service(string(rune('a'+w)), netip.AddrFrom4([4]byte{10, byte(w), 0, byte(i)}).String()))
				})
			}
		})
	}
	writers.Wait()
	if snap := store.Current(); snap.Revision != 200 || snap.Services.Len() != 4 {
		t.Errorf("revision %d with %d services, want 200 with 4", snap.Revision, snap.Services.Len())
	}
}

func TestMappedAddressIsIndexedOnce(t *testing.T) {
	t.Parallel()
	store := NewStore()
	store.Update(func(tx *Tx) { tx.PutService(service("web", "10.0.0.1", "::ffff:10.0.0.1")) })
	snap := store.Update(func(tx *Tx) { tx.PutService(service("web", "10.0.0.1")) })
	if at := snap.ServicesAt(netip.MustParseAddr("10.0.0.1")); len(at) != 1 {
		t.Errorf("ServicesAt = %v after the mapped spelling went", at)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		Key{"a", "b"}.String(): "a/b", TCP.String(): "TCP", SCTP.String(): "SCTP", Protocol(9).String(): "Protocol(9)",
		ClusterIP.String(): "ClusterIP", Headless.String(): "Headless", ExternalName.String(): "ExternalName",
		TypeLoadBalancer.String(): "LoadBalancer", Type(9).String(): "Type(9)",
		PolicyLocal.String(): "Local", PolicyCluster.String(): "Cluster",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for name, want := range map[string]Protocol{"": TCP, "udp": UDP, "SCTP": SCTP} {
		if p, err := ParseProtocol(name); err != nil || p != want {
			t.Errorf("ParseProtocol(%q) = %v, %v", name, p, err)
		}
	}
	if _, err := ParseProtocol("ICMP"); err == nil {
		t.Error("ParseProtocol takes ICMP")
	}
}

func TestServiceQuestions(t *testing.T) {
	t.Parallel()
	plain, s := service("web", "10.0.0.1", "10.0.0.2"), service("web")
	if plain.ExternallyAccessible() {
		t.Error("P-11: a plain service is externally accessible")
	}
	for name, change := range map[string]func(*Service){
		"node port":     func(s *Service) { s.Ports = []Port{{Port: 80}, {Port: 81, NodePort: 30080}} },
		"external IP":   func(s *Service) { s.ExternalIPs = []netip.Addr{netip.MustParseAddr("192.0.2.1")} },
		"load balancer": func(s *Service) { s.LoadBalancerIPs = []netip.Addr{netip.MustParseAddr("192.0.2.1")} },
	} {
		s := *s
		if change(&s); !s.ExternallyAccessible() {
			t.Errorf("P-11: %s does not count", name)
		}
	}
	seen := 0
	for range plain.Endpoints {
		seen++
		break
	}
	for range plain.Endpoints {
		seen++
	}
	if seen != 3 {
		t.Errorf("saw %d endpoints, want 1 and 2", seen)
	}
	for name, p := range map[string]Pod{"finished": {Phase: "Succeeded"}, "failed": {Phase: "Failed"}, "terminating": {Terminating: true}} {
		if p.Live() {
			t.Errorf("P7: a %s pod is live", name)
		}
	}
	if p := (&Pod{Phase: "Running"}); !p.Live() {
		t.Error("P7: a running pod is not live")
	}
}
