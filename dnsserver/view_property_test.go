package dnsserver

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"signpost/discovery"
)

// randomWorld makes changes to a store: few names and addresses, so that they
// meet.
type randomWorld struct {
	*rand.Rand
	store *discovery.Store
}

func newRandomWorld(seed uint64) *randomWorld {
	return &randomWorld{Rand: rand.New(rand.NewPCG(seed, 0)), store: discovery.NewStore()}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// step makes up to three changes in one revision.
func (w *randomWorld) step() *discovery.Snapshot {
	return w.store.Update(func(tx *discovery.Tx) {
		tx.MarkSynced()
		for range 1 + w.IntN(3) {
			w.change(tx)
		}
	})
}

func (w *randomWorld) change(tx *discovery.Tx) {
	ns := pick(w.Rand, "red", "green", "blue")
	key := discovery.Key{Namespace: ns, Name: pick(w.Rand, "web", "db", "api")}
	switch w.IntN(10) {
	case 0:
		tx.DeleteService(key)
	case 1:
		tx.PutNamespace(ns)
	case 2:
		tx.DeleteNamespace(ns)
	case 3:
		tx.DeletePod(key)
	case 4:
		tx.PutPod(&discovery.Pod{
			Key: key, Addrs: w.addrs(), Phase: pick(w.Rand, "Running", "Failed"), Terminating: w.IntN(4) == 0,
		})
	default:
		tx.PutService(w.service(key))
	}
}

func (w *randomWorld) service(k discovery.Key) *discovery.Service {
	s := &discovery.Service{Key: k, Kind: pick(w.Rand, discovery.ClusterIP, discovery.Headless, discovery.ExternalName)}
	switch s.Kind {
	case discovery.ExternalName:
		s.ExternalName = pick(w.Rand, "www.example.com", "web.red.svc.cluster.local", "api.blue.svc.cluster.local")
		return s
	case discovery.ClusterIP:
		s.ClusterIPs = w.addrs()
	}
	for range w.IntN(4) {
		s.Ports = append(s.Ports, discovery.Port{Name: w.portName(), Protocol: discovery.Protocol(w.IntN(3)), Port: w.port()})
	}
	for range w.IntN(3) {
		s.Slices = append(s.Slices, w.slice())
	}
	return s
}

func (w *randomWorld) slice() *discovery.Slice {
	slice := &discovery.Slice{}
	for range w.IntN(3) {
		slice.Ports = append(slice.Ports, discovery.EndpointPort{Name: w.portName(), Protocol: discovery.Protocol(w.IntN(3)), Port: w.port()})
	}
	for _, a := range w.addrs() {
		slice.Endpoints = append(slice.Endpoints, discovery.Endpoint{
			Addr: a, Ready: w.IntN(4) > 0, Hostname: pick(w.Rand, "", "", "pod-0", "Pod-1", "dot.ted"),
		})
	}
	return slice
}

func (w *randomWorld) portName() string { return pick(w.Rand, "", "http", "dns", "HTTPS") }
func (w *randomWorld) port() uint16     { return pick[uint16](w.Rand, 53, 80, 443) }

func (w *randomWorld) addrs() []netip.Addr {
	var list []netip.Addr
	for range w.IntN(4) {
		text := fmt.Sprintf(pick(w.Rand, "10.96.0.%d", "10.244.1.%d", "fd00:%d::", "fd00::%d"), 1+w.IntN(5))
		list = append(list, netip.MustParseAddr(text))
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

var propertyConfig = ClusterConfig{
	Zones: []string{"cluster.local.", "in-addr.arpa.", "ip6.arpa."}, TTL: DefaultTTL, Pods: PodsVerified,
	Addrs: func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("192.0.2.53")} },
}

var propertyTypes = []string{"A", "AAAA", "SRV", "PTR", "TXT", "SOA", "NS", "CNAME", "MX", "HINFO"}

// candidates returns the names to ask for: all that exist, and beside, below
// and above them some that don't.
func (w *randomWorld) candidates(existing []string) []string {
	names := slices.Clone(existing)
	for _, name := range existing {
		names = append(names, pick(w.Rand, "x", "web", "_tcp", "_http", "pod-0", "10-96-0-1", "1", "svc", "*")+"."+name)
		if first, rest, ok := strings.Cut(name, "."); ok && strings.Contains(rest, ".") && !strings.HasPrefix(rest, "arpa") && !strings.HasPrefix(rest, "local") {
			names = append(names, pick(w.Rand, "y", "0", "db", "_udp", "_dns", first+"x")+"."+rest)
		}
	}
	return names
}

// checkView compares a view with the naive zone: the same outcomes and the
// same records, for every name and type. The naive zone has G8 built in.
func checkView(t *testing.T, w *randomWorld, v *view) {
	t.Helper()
	naive := newNaiveZone(v.snap)
	existing := naive.names()
	for _, name := range w.candidates(existing) {
		var q queryName
		if !q.parse(name) {
			t.Fatalf("parsing %q failed", name)
		}
		for _, qtype := range propertyTypes {
			r := v.lookup(&q, typeOf(qtype))
			want, records := naive.lookup(name, qtype, existing)
			got := flatten(v, name, r)
			if r.outcome != want || !slices.Equal(got, records) {
				t.Fatalf("%s %s: got outcome %d %q, want %d %q", name, qtype, r.outcome, got, want, records)
			}
			if len(slices.Compact(got)) != len(records) {
				t.Fatalf("%s %s: a record stands twice (G9): %q", name, qtype, got)
			}
		}
		checkConsistent(t, v, &q, name)
	}
}

// checkConsistent checks G8 on the view alone: one outcome class for every type,
// and a name that exists makes all names above it exist.
func checkConsistent(t *testing.T, v *view, q *queryName, name string) {
	t.Helper()
	isMissing := v.lookup(q, typeOf("A")).outcome == missing
	for _, qtype := range []string{"ANY", "TYPE65280", "SOA", "NS", "SRV", "TXT"} {
		if (v.lookup(q, typeOf(qtype)).outcome == missing) != isMissing {
			t.Fatalf("%s: missing for one of A and %s only (G8)", name, qtype)
		}
	}
	for parent := name; !isMissing; {
		_, parent, _ = strings.Cut(parent, ".")
		var above queryName
		above.parse(parent)
		r := v.lookup(&above, typeOf("A"))
		if r.outcome == outside {
			return
		}
		if r.outcome == missing {
			t.Fatalf("%s exists, but %s above it does not (RFC 8020)", name, parent)
		}
	}
}

// checkSame checks that a view that was brought up to date step by step equals
// one that was made at once.
func checkSame(t *testing.T, incremental *view) {
	t.Helper()
	fresh := newView(incremental.conf, 1).advance(incremental.snap)
	discovery.Diff(incremental.services, fresh.services, func(k discovery.Key, a, b *answers) {
		if !a.equal(b) {
			t.Errorf("answers of %s: %+v, from scratch %+v", k, a, b)
		}
	})
	discovery.DiffAddrs(incremental.reverse, fresh.reverse, func(a netip.Addr, was, now pointerList) {
		t.Errorf("names of %s: %q, from scratch %q", a, was, now)
	})
	if !equalServers(incremental.servers, fresh.servers) {
		t.Errorf("name servers: %v, from scratch %v", incremental.servers, fresh.servers)
	}
}

// checkSerial checks G7: another serial exactly if another answer.
func checkSerial(t *testing.T, before, after *view) {
	t.Helper()
	same := slices.Equal(dumpNaive(before.snap), dumpNaive(after.snap)) && before.snap.Synced == after.snap.Synced
	if rose := after.serial - before.serial; same && rose != 0 || !same && rose != 1 {
		t.Errorf("the serial rose by %d; answers the same: %v (G7)", rose, same)
	}
}

func dumpNaive(snap *discovery.Snapshot) []string {
	z := newNaiveZone(snap)
	var all []string
	for name, records := range z.records {
		all = append(all, name)
		for r := range records {
			all = append(all, name+" "+r)
		}
	}
	slices.Sort(all)
	return all
}

func runWorld(t *testing.T, seed uint64, steps int) {
	t.Helper()
	w := newRandomWorld(seed)
	v := newView(newViewConfig(propertyConfig), 1)
	for range steps {
		before := v
		v = v.advance(w.step())
		checkSerial(t, before, v)
		checkSame(t, v)
		checkView(t, w, v)
		if t.Failed() {
			t.Fatalf("seed %d, revision %d", seed, v.snap.Revision)
		}
	}
}

func TestViewProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			runWorld(t, seed, 15)
		})
	}
}

func FuzzView(f *testing.F) {
	f.Add(uint64(1), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) { runWorld(t, seed, int(steps%30)) })
}
