package ipvs

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"signpost/vip/internal/ruleset"
)

// twoPolicies has a Service in all ways that IPVS has, by mark too, and one more.
const twoPolicies = web + `service a/lb type=LoadBalancer ips=10.96.0.8 ports=80->30080 lb=203.0.113.1 etp=Local
slice a ports=8080
endpoint 172.16.1.1 node=n1
endpoint 172.16.2.1 node=n2
`

// leftAlone is a machine that another mode has just taken over, with connections
// to one endpoint of some servers, and a backend that knows nothing of it.
func leftAlone(t *testing.T, config Config, busy ...string) (*machine, *Backend) {
	t.Helper()
	m := newMachine(t)
	b := m.backend(config)
	mustApply(t, b, nil, plan(t, twoPolicies))
	if err := b.Yield(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, at := range busy {
		m.connect(at, 1)
	}
	if carries, err := b.Quiesce(t.Context()); err != nil || !carries {
		t.Fatalf("making way: %v, %v", carries, err)
	}
	m.writes()
	return m, m.backend(config)
}

// connect sets the connections to the first endpoint of the servers there.
func (m *machine) connect(at string, n int) {
	to := mustAddrPort("172.16.1.1:8080")
	for key, s := range m.servers {
		if strings.HasPrefix(key.String(), at) && s.destinations[to] != nil {
			s.destinations[to].connections = n
		}
	}
}

// sizes counts the elements of sets that are not empty, but for the family's name.
func (m *machine) sizes() map[string]int {
	sizes := map[string]int{}
	for slot := range m.elements {
		sizes[strings.TrimPrefix(slot.Set.Name, "ip4-")]++
	}
	return sizes
}

func (m *machine) addresses() []string {
	var list []string
	for a := range m.bound {
		list = append(list, a.String())
	}
	slices.Sort(list)
	return list
}

func TestYield(t *testing.T) {
	t.Parallel()
	m, _ := leftAlone(t, Config{})
	own := netip.MustParseAddr("192.168.6.1")
	want := map[netip.Addr]netip.Addr{netip.MustParseAddr("10.96.0.7"): own, netip.MustParseAddr("10.96.0.8"): own}
	if diff := cmp.Diff(want, m.sources, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("X22 what the node's own connections come from (-want +got):\n%s", diff)
	}
	if got := m.addresses(); !slices.Equal(got, []string{"10.96.0.7", "10.96.0.8"}) {
		t.Errorf("X22 local: %v", got)
	}
	nothing := newMachine(t)
	if err := nothing.backend(Config{}).Yield(t.Context()); err != nil || nothing.made {
		t.Errorf("one that has made nothing: %v", err)
	}
}

func TestQuiesce(t *testing.T) {
	t.Parallel()
	m, _ := leftAlone(t, Config{}, "10.96.0.7")
	for _, name := range []string{preroutingChain, outputChain, elseChain(ruleset.IPv4), elseChain(ruleset.IPv6), keptChain, keptSentChain} {
		if rules := m.rules[name].Rules; len(rules) > 0 {
			t.Errorf("X22 chain %s still decides what becomes of packets: %d rules", name, len(rules))
		}
	}
	want := map[string]int{"owned": 4, "marks": 4, "captured": 1, "cluster-ips": 2, "endpoint-ports": 1}
	if diff := cmp.Diff(want, m.sizes()); diff != "" {
		t.Errorf("X22 what is left of the sets (-want +got):\n%s", diff)
	}
	carries, err := newMachine(t).backend(Config{}).Quiesce(t.Context())
	if err != nil || carries {
		t.Errorf("nothing there: %v, %v", carries, err)
	}
}

// TestDrain follows connections of several servers to their ends, one after the
// other.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, b := leftAlone(t, Config{}, "10.96.0.7", "203.0.113.1:80", "mark")
		foreign := serverKey{frontend: mustFrontend(t, "198.51.100.9:80/TCP")}
		m.servers[foreign] = &fakeServer{destinations: map[netip.AddrPort]*destination{}}
		ended := make(chan error, 1)
		go func() { ended <- b.Drain(t.Context()) }()
		end := func(at string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			m.connect(at, 0)
		}
		pass := func() { <-time.After(drainShare * drainEvery); synctest.Wait() }
		synctest.Wait()

		byAddress := func() []string {
			return slices.DeleteFunc(m.frontends(), func(s string) bool { return strings.HasPrefix(s, "mark") })
		}
		if got, want := byAddress(), []string{"10.96.0.7:80/TCP", "198.51.100.9:80/TCP", "203.0.113.1:80/TCP"}; !slices.Equal(got, want) {
			t.Errorf("servers with connections: %v, want %v", got, want)
		}
		for key, s := range m.servers {
			for to, d := range s.destinations {
				if d.weight != 0 || d.connections == 0 {
					t.Errorf("%s at %s: weight %d, %d connections", to, key, d.weight, d.connections)
				}
			}
		}
		if got := m.addresses(); !slices.Equal(got, []string{"10.96.0.7"}) {
			t.Errorf("local: %v", got)
		}

		end("mark")
		pass()
		if got, want := m.sizes(), (map[string]int{"owned": 2, "captured": 1, "cluster-ips": 1, "endpoint-ports": 1}); !maps.Equal(got, want) {
			t.Errorf("sets without the servers by mark: %v, want %v", got, want)
		}
		end("203.0.113.1:80")
		pass()
		if got, want := m.sizes(), (map[string]int{"owned": 1, "cluster-ips": 1, "endpoint-ports": 1}); !maps.Equal(got, want) {
			t.Errorf("sets with one server left: %v, want %v", got, want)
		}

		end("10.96.0.7")
		pass()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		m.empty(t, foreign)
	})
}

// empty checks that nothing of ours is left.
func (m *machine) empty(t *testing.T, foreign serverKey) {
	t.Helper()
	if m.made || len(m.bound)+len(m.captures)+len(m.elements) > 0 || len(m.servers) != 1 || m.servers[foreign] == nil {
		t.Errorf("left: table %v, addresses %v, servers %v", m.made, m.addresses(), m.frontends())
	}
}

func TestDrainEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		drain time.Duration
		after time.Duration
		gone  bool
	}{
		{"after its time", time.Minute, time.Minute + drainShare*drainEvery, true},
		{"not before", time.Minute, 50 * time.Second, false},
		{"never, if there is no limit", -1, 2 * time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, b := leftAlone(t, Config{Drain: test.drain}, "10.96.0.7")
				ctx, cancel := context.WithTimeout(t.Context(), test.after)
				defer cancel()
				err := b.Drain(ctx)
				if test.gone != (err == nil) || test.gone == m.made {
					t.Errorf("I-07 %v, table there: %v", err, m.made)
				}
			})
		})
	}
}

// TestDrainFails has the kernel refuse for a while: nothing is given up.
func TestDrainFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, b := leftAlone(t, Config{}, "10.96.0.7")
		m.connect("10.96.0.7", 0)
		began := time.Now()
		m.fail = func(string) error {
			if time.Since(began) < time.Minute {
				return unix.ENOBUFS
			}
			return nil
		}
		if err := b.Drain(t.Context()); err != nil || m.made || len(m.servers) > 0 {
			t.Errorf("%v, servers %v", err, m.frontends())
		}
		if took := time.Since(began); took < time.Minute {
			t.Errorf("gave up after %s", took)
		}
	})
}

// TestServeWhileDraining has the mode in use again, at any moment of the way out.
func TestServeWhileDraining(t *testing.T) {
	t.Parallel()
	want := plan(t, twoPolicies)
	fresh := newMachine(t)
	mustApply(t, fresh.backend(Config{}), nil, want)
	for _, passes := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			m, b := leftAlone(t, Config{}, "10.96.0.7", "mark")
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(passes)*drainShare*drainEvery)
			defer cancel()
			if err := b.Drain(ctx); passes > 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%v, want it to be still at it", err)
			}
			m.writes()
			mustApply(t, b, nil, want)
			for _, line := range m.writes() {
				if strings.HasPrefix(line, "delete 172.16.1.1:8080 of 10.96.0.7") || strings.HasPrefix(line, "delete server 10.96.0.7") {
					t.Errorf("%d passes: the connection is lost: %s", passes, line)
				}
			}
			if diff := cmp.Diff(elementsBut(fresh, "marks"), elementsBut(m, "marks")); diff != "" {
				t.Errorf("%d passes: sets (-fresh +adopted):\n%s", passes, diff)
			}
			if len(m.servers) != len(fresh.servers) || len(m.sources) > 0 || !slices.Equal(m.addresses(), fresh.addresses()) {
				t.Errorf("%d passes: servers %v, addresses %v, by routes %v", passes, m.frontends(), m.addresses(), m.sources)
			}
			for name, chain := range fresh.rules {
				if !slices.Equal(chain.Labels(), m.rules[name].Labels()) {
					t.Errorf("%d passes: chain %s: %q", passes, name, m.rules[name].Labels())
				}
			}
		})
	}
}

// elementsBut lists what the sets hold, but for one set of each family.
func elementsBut(m *machine, but string) []string {
	var list []string
	for slot, e := range m.elements {
		if setsOf[ruleset.IPv4].marks != slot.Set && setsOf[ruleset.IPv6].marks != slot.Set {
			list = append(list, slot.Set.Name+" "+slot.Key+" "+e.Chain)
		}
	}
	slices.Sort(list)
	return list
}
