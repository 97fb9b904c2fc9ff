package discovery

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
)

// world is the oracle: what a store holds, as plain maps.
type world struct {
	services   map[Key]*Service
	pods       map[Key]*Pod
	nodes      map[string]*Node
	namespaces map[string]bool
	labels     map[string]map[string]string
	synced     bool
}

func newWorld() *world {
	return &world{map[Key]*Service{}, map[Key]*Pod{}, map[string]*Node{}, map[string]bool{}, map[string]map[string]string{}, false}
}

func (w *world) clone() *world {
	return &world{maps.Clone(w.services), maps.Clone(w.pods), maps.Clone(w.nodes), maps.Clone(w.namespaces), maps.Clone(w.labels), w.synced}
}

func (w *world) equal(o *world) bool {
	return maps.EqualFunc(w.services, o.services, (*Service).Equal) && maps.EqualFunc(w.pods, o.pods, (*Pod).Equal) &&
		maps.EqualFunc(w.nodes, o.nodes, (*Node).Equal) && maps.Equal(w.namespaces, o.namespaces) &&
		maps.EqualFunc(w.labels, o.labels, maps.Equal[map[string]string, map[string]string]) && w.synced == o.synced
}

// FuzzStore runs a program of four-byte steps in transactions, and holds each
// snapshot against one that is rebuilt from nothing.
func FuzzStore(f *testing.F) {
	f.Add([]byte{0, 1, 1, 7, 2, 1, 1, 0, 9, 0, 0, 0, 1, 1, 0, 0, 9, 0, 0, 0})
	f.Add([]byte{0, 1, 1, 7, 9, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 7, 4, 1, 0, 0, 6, 2, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0})
	f.Add([]byte{10, 1, 1, 7, 9, 0, 0, 0, 10, 5, 0, 0, 7, 1, 0, 0, 9, 0, 0, 0, 7, 1, 0, 0})
	f.Fuzz(func(t *testing.T, program []byte) {
		store, oracle := NewStore(), newWorld()
		for len(program) >= 4 {
			before, was := store.Current(), oracle.clone()
			after := store.Update(func(tx *Tx) {
				for len(program) >= 4 {
					step := program[:4]
					program = program[4:]
					if !runStep(step, tx, oracle) {
						return
					}
				}
			})
			checkPublication(t, before, after, was, oracle)
			checkSnapshot(t, after, oracle)
		}
	})
}

// runStep makes one change in the transaction and in the oracle; false ends
// the transaction.
func runStep(step []byte, tx *Tx, w *world) bool {
	k := fuzzKey(step[1] % 12)
	name := k.Name
	switch step[0] % 11 {
	case 0:
		s := fuzzService(k, step[2], step[3])
		tx.PutService(s)
		w.services[k] = s
	case 1:
		tx.DeleteService(k)
		delete(w.services, k)
	case 2:
		p := &Pod{Key: k, Addrs: fuzzAddrs(step[2]), Ready: step[3]%2 == 1}
		tx.PutPod(p)
		w.pods[k] = p
	case 3:
		tx.DeletePod(k)
		delete(w.pods, k)
	case 4:
		n := &Node{Name: name, Zone: string(rune('a' + step[2]%2))}
		tx.PutNode(n)
		w.nodes[name] = n
	case 5:
		tx.DeleteNode(name)
		delete(w.nodes, name)
	case 6:
		tx.PutNamespace(k.Namespace)
		w.namespaces[k.Namespace] = true
	case 7:
		tx.DeleteNamespace(k.Namespace)
		delete(w.namespaces, k.Namespace)
		delete(w.labels, k.Namespace)
	case 10:
		w.namespaces[k.Namespace] = true
		w.labels[k.Namespace] = map[string]string{"team": name}
		tx.PutNamespaceLabels(k.Namespace, w.labels[k.Namespace])
	case 8:
		tx.MarkSynced()
		w.synced = true
	default:
		return false
	}
	return true
}

func fuzzService(k Key, endpoints, more byte) *Service {
	s := &Service{Key: k, ClusterIPs: fuzzAddrs(more >> 5), Slices: []*Slice{{Name: k.Name}}}
	s.ExternalIPs = fuzzAddrs(more & 3)
	s.PublishNotReady = more&4 != 0
	for _, a := range fuzzAddrs(endpoints) {
		s.Slices[0].Endpoints = append(s.Slices[0].Endpoints, Endpoint{Addr: a, Ready: more&8 != 0})
	}
	return s
}

// fuzzAddrs gives one address of both families for each bit.
func fuzzAddrs(bits byte) []netip.Addr {
	var addrs []netip.Addr
	for _, a := range allFuzzAddrs() {
		if bits&1 != 0 {
			addrs = append(addrs, a)
		}
		bits >>= 1
	}
	return addrs
}

func allFuzzAddrs() []netip.Addr {
	var addrs []netip.Addr
	for i := range byte(4) {
		addrs = append(addrs, netip.AddrFrom4([4]byte{10, 0, i * 15, 1}), netip.AddrFrom16([16]byte{0: 0xfd, 15: i}))
	}
	return addrs
}

// checkPublication: one revision more if something differs, none if not, and
// equal objects are the same pointers.
func checkPublication(t *testing.T, before, after *Snapshot, was, now *world) {
	t.Helper()
	if was.equal(now) {
		if after != before {
			t.Fatalf("revision %d was published without a difference", after.Revision)
		}
		return
	}
	if after.Revision != before.Revision+1 {
		t.Fatalf("revision %d follows %d", after.Revision, before.Revision)
	}
	for k, s := range after.Services.All() {
		if old, ok := before.Services.Get(k); ok && old.Equal(s) && old != s {
			t.Fatalf("service %v is unchanged but another pointer", k)
		}
	}
	for k, p := range after.Pods.All() {
		if old, ok := before.Pods.Get(k); ok && old.Equal(p) && old != p {
			t.Fatalf("pod %v is unchanged but another pointer", k)
		}
	}
	for name, n := range after.Nodes {
		if old := before.Nodes[name]; old.Equal(n) && old != n {
			t.Fatalf("node %q is unchanged but another pointer", name)
		}
	}
}

// checkSnapshot holds a snapshot against the oracle, and its indexes against
// a walk over everything.
func checkSnapshot(t *testing.T, got *Snapshot, w *world) {
	t.Helper()
	held := &world{maps.Collect(got.Services.All()), maps.Collect(got.Pods.All()), got.Nodes, got.Namespaces, got.NamespaceLabels, got.Synced}
	if !held.equal(w) {
		t.Fatalf("revision %d holds %+v, want %+v", got.Revision, held, w)
	}
	for _, a := range append(allFuzzAddrs(), netip.MustParseAddr("192.0.2.1"), netip.Addr{}) {
		services, pods := w.at(a)
		if !slices.Equal(got.ServicesAt(a), services) || !slices.Equal(got.PodsAt(a), pods) {
			t.Fatalf("revision %d, %v: services %v, want %v; pods %v, want %v",
				got.Revision, a, got.ServicesAt(a), services, got.PodsAt(a), pods)
		}
	}
	for i := range 5 {
		name := string(rune('a' + i))
		if got.HasNamespace(name) != w.hasNamespace(name) {
			t.Fatalf("HasNamespace(%q) = %v", name, got.HasNamespace(name))
		}
	}
}

func (w *world) at(a netip.Addr) (services, pods []Key) {
	for k, s := range w.services {
		has := slices.Contains(s.ClusterIPs, a) || slices.Contains(s.ExternalIPs, a)
		for _, e := range s.Endpoints {
			has = has || e.Addr == a
		}
		if has {
			services = append(services, k)
		}
	}
	for k, p := range w.pods {
		if slices.Contains(p.Addrs, a) {
			pods = append(pods, k)
		}
	}
	slices.SortFunc(services, Key.Compare)
	slices.SortFunc(pods, Key.Compare)
	return services, pods
}

func (w *world) hasNamespace(name string) bool {
	has := w.namespaces[name]
	for k := range w.services {
		has = has || k.Namespace == name
	}
	for k := range w.pods {
		has = has || k.Namespace == name
	}
	return has
}
