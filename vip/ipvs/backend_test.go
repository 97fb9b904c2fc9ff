package ipvs

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/viptest"
)

const testNode = "node n1 addrs=192.168.6.1,fd00:6::1 nodeports=192.168.6.1 pods=172.16.0.0/16 services=10.96.0.0/16,fd00:96::/112\n"

func plan(t testing.TB, world string) *vip.State {
	t.Helper()
	w, err := viptest.ParseWorld(testNode + world)
	if err != nil {
		t.Fatal(err)
	}
	return vip.Planner{}.Plan(w.Snapshot, w.Node)
}

func mustApply(t testing.TB, b *Backend, have, want *vip.State) {
	t.Helper()
	if err := b.Apply(context.Background(), have, want); err != nil {
		t.Fatal(err)
	}
}

// dataplane ties a backend to the machine that it programs.
type dataplane struct {
	*Backend
	*machine
}

func (d dataplane) Connect(p viptest.Packet) viptest.Result { return d.machine.Connect(p) }

func TestModel(t *testing.T) {
	t.Parallel()
	viptest.Model(t, func(t *testing.T) viptest.Dataplane {
		m := newMachine(t)
		return dataplane{m.backend(Config{}), m}
	})
}

// TestModelWithFaults has one in ten writes refused, unanswered or interrupted.
func TestModelWithFaults(t *testing.T) {
	t.Parallel()
	viptest.Model(t, func(t *testing.T) viptest.Dataplane {
		m := newMachine(t)
		random := viptest.Rand(t)
		left := 200
		m.fail = func(string) error {
			if left == 0 || random.IntN(viptest.DefaultFaultRate) != 0 {
				return nil
			}
			left--
			return []error{unix.ENOMEM, unix.ENOBUFS, unix.ETIMEDOUT, unix.EINVAL}[random.IntN(4)]
		}
		return dataplane{m.backend(Config{}), m}
	})
}

const web = "service a/web ips=10.96.0.7 ports=80\nslice a ports=8080\nendpoint 172.16.1.1 node=n1\nendpoint 172.16.2.1 node=n2\n"

func TestOperations(t *testing.T) {
	t.Parallel()
	const other = "service a/other ips=10.96.0.8 ports=53/UDP\nslice a ports=53/UDP\nendpoint 172.16.1.2 node=n1\nendpoint 172.16.2.2 node=n2\n"
	tests := []struct {
		name          string
		before, after string
		want          []string
	}{
		{"property 3: what is there costs nothing", web, web, nil},
		{
			"I-09: rules before the server, the server before the address, the gate last", "", web,
			[]string{
				"commit 4+ 0-", "add server 10.96.0.7:80/TCP",
				"add 172.16.1.1:8080 to 10.96.0.7:80/TCP", "add 172.16.2.1:8080 to 10.96.0.7:80/TCP",
				"bind 10.96.0.7", "commit 3+ 0-",
			},
		},
		{
			"I-04: the gate closes before the server goes, the address and what names it last", web, "",
			[]string{"commit 0+ 3-", "delete server 10.96.0.7:80/TCP", "unbind 10.96.0.7", "commit 0+ 4-"},
		},
		{
			"I-16: an endpoint more is one request", web, web + "endpoint 172.16.2.9 node=n2",
			[]string{"add 172.16.2.9:8080 to 10.96.0.7:80/TCP"},
		},
		{
			"I-07: UDP endpoints go at once", other, strings.Replace(other, "endpoint 172.16.2.2 node=n2\n", "", 1),
			[]string{"delete 172.16.2.2:53 of 10.96.0.8:53/UDP"},
		},
		{
			"B58 the last endpoint goes: refusals first", other, "service a/other ips=10.96.0.8 ports=53/UDP",
			[]string{"commit 3+ 3-", "delete 172.16.1.2:53 of 10.96.0.8:53/UDP", "delete 172.16.2.2:53 of 10.96.0.8:53/UDP", "commit 0+ 1-"},
		},
		{
			"I-05: another scheduler is set in place", web, strings.Replace(web, "ports=80\n", "ports=80 scheduler=sh\n", 1),
			[]string{"set server 10.96.0.7:80/TCP sh"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			b, before, after := m.backend(Config{}), plan(t, tt.before), plan(t, tt.after)
			if tt.before == tt.after {
				after = before
			}
			mustApply(t, b, nil, before)
			m.writes()
			mustApply(t, b, before, after)
			got := m.writes()
			slices.SortStableFunc(got, inGroups)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("what was written (-want +got):\n%s", diff)
			}
			m.writes()
			mustApply(t, m.backend(Config{}), nil, after)
			if got := m.writes(); len(got) != 0 {
				t.Errorf("a new process writes what is there already: %v", got)
			}
		})
	}
}

// I-05, I-14: a reload changes the scheduler of what is there, in place.
func TestConfigure(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	b, state := m.backend(Config{}), plan(t, web)
	mustApply(t, b, nil, state)
	m.writes()
	b.Configure(Config{Scheduler: "sh", Drain: time.Minute})
	mustApply(t, b, nil, state)
	if diff := cmp.Diff([]string{"set server 10.96.0.7:80/TCP sh"}, m.writes()); diff != "" {
		t.Errorf("what was written (-want +got):\n%s", diff)
	}
	if got := b.planes.servers.drain; got != time.Minute {
		t.Errorf("endpoints that leave have %s", got)
	}
}

// inGroups sorts deletions of endpoints, whose order does not matter.
func inGroups(a, b string) int {
	if strings.HasPrefix(a, "delete 172") && strings.HasPrefix(b, "delete 172") {
		return strings.Compare(a, b)
	}
	return 0
}

func TestGracefulTermination(t *testing.T) {
	t.Parallel()
	const one = "service a/web ips=10.96.0.7 ports=80\nslice a ports=8080\nendpoint 172.16.1.1 node=n1\n"
	key := serverKey{frontend: mustFrontend(t, "10.96.0.7:80/TCP")}
	setup := func(t *testing.T, config Config) (*machine, *Backend, *destination) {
		m := newMachine(t)
		b := m.backend(config)
		mustApply(t, b, nil, plan(t, web))
		leaving := m.servers[key].destinations[mustAddrPort("172.16.2.1:8080")]
		leaving.connections = 1
		mustApply(t, b, plan(t, web), plan(t, one))
		if leaving.weight != 0 {
			t.Fatalf("weight of an endpoint that leaves with a connection: got %d, want 0", leaving.weight)
		}
		return m, b, leaving
	}
	reap := func(t *testing.T, b *Backend, at time.Time) {
		if err := b.planes.servers.reap(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	has := func(m *machine) bool { return m.servers[key].destinations[mustAddrPort("172.16.2.1:8080")] != nil }

	t.Run("B01 it stays until its connections end", func(t *testing.T) {
		m, b, leaving := setup(t, Config{})
		reap(t, b, time.Now())
		if !has(m) {
			t.Fatal("it went with a connection")
		}
		leaving.connections = 0
		reap(t, b, time.Now())
		if has(m) {
			t.Error("it stays without connections")
		}
	})
	t.Run("B03 but not for ever", func(t *testing.T) {
		m, b, _ := setup(t, Config{Drain: time.Minute})
		reap(t, b, time.Now().Add(2*time.Minute))
		if has(m) {
			t.Error("it outlives the bound")
		}
	})
	t.Run("negative bound: for ever", func(t *testing.T) {
		m, b, _ := setup(t, Config{Drain: -1})
		reap(t, b, time.Now().Add(1000*time.Hour))
		if !has(m) {
			t.Error("it went with a connection")
		}
	})
	t.Run("B11 it comes back: its weight is restored in place", func(t *testing.T) {
		m, b, leaving := setup(t, Config{})
		m.writes()
		mustApply(t, b, plan(t, one), plan(t, web))
		want := []string{"set 172.16.2.1:8080 of 10.96.0.7:80/TCP to weight 1"}
		if diff := cmp.Diff(want, m.writes()); diff != "" || leaving.connections != 1 {
			t.Errorf("what was written (-want +got):\n%s", diff)
		}
		leaving.connections = 0
		reap(t, b, time.Now().Add(1000*time.Hour))
		if !has(m) {
			t.Error("it is removed although it came back")
		}
	})
	t.Run("I-07 the periodic look removes it, too", func(t *testing.T) {
		m, b, leaving := setup(t, Config{})
		mustApply(t, b, nil, plan(t, one))
		if !has(m) {
			t.Fatal("it went with a connection")
		}
		leaving.connections = 0
		mustApply(t, b, nil, plan(t, one))
		if has(m) {
			t.Error("it stays without connections")
		}
	})
	t.Run("B06 a restart neither removes nor revives it", func(t *testing.T) {
		m, _, leaving := setup(t, Config{})
		m.writes()
		b := m.backend(Config{})
		mustApply(t, b, nil, plan(t, one))
		if got := m.writes(); len(got) != 0 || leaving.weight != 0 {
			t.Errorf("writes after a restart: got %v, want none", got)
		}
		leaving.connections = 0
		reap(t, b, time.Now())
		if has(m) {
			t.Error("the new process forgets it")
		}
	})
}

func TestForeignServers(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	foreign := serverKey{frontend: mustFrontend(t, "203.0.113.5:80/TCP")}
	marked := byMark(false, 7)
	stale := serverKey{frontend: mustFrontend(t, "10.96.0.7:81/TCP")}
	taken := serverKey{frontend: mustFrontend(t, "10.96.0.7:80/TCP")}
	for _, key := range []serverKey{foreign, marked, taken} {
		m.servers[key] = &fakeServer{spec: serverSpec{scheduler: "wlc"}, destinations: map[netip.AddrPort]*destination{}}
	}
	b := m.backend(Config{})
	mustApply(t, b, nil, plan(t, web))
	if got := m.servers[taken].spec.scheduler; got != "rr" {
		t.Errorf("a server at a wanted frontend keeps scheduler %s: there is room for one", got)
	}
	m.servers[stale] = &fakeServer{destinations: map[netip.AddrPort]*destination{}}
	mustApply(t, m.backend(Config{}), nil, plan(t, web))
	want := []string{"10.96.0.7:80/TCP", "203.0.113.5:80/TCP", "mark 0x7"}
	if diff := cmp.Diff(want, m.frontends()); diff != "" {
		t.Errorf("B14, B16, B62 what is on our addresses is ours, nothing else (-want +got):\n%s", diff)
	}
	if err := m.backend(Config{}).Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"203.0.113.5:80/TCP", "mark 0x7"}, m.frontends()); diff != "" || len(m.bound)+len(m.elements) > 0 {
		t.Errorf("I-17 after a cleanup (-want +got):\n%s", diff)
	}
}

func TestFaultIsolation(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	b := m.backend(Config{})
	bad := "service a/bad ips=10.96.0.9 ports=80 scheduler=none\nslice a ports=8080\nendpoint 172.16.1.1 node=n1\n"
	want := plan(t, web+bad)
	err := b.Apply(t.Context(), nil, want)
	var failure *vip.PartialError
	if !errors.As(err, &failure) {
		t.Fatalf("X04 a missing scheduler: got %v, want a partial error", err)
	}
	if diff := cmp.Diff([]string{"10.96.0.7:80/TCP"}, m.frontends()); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	reason := failure.Failed[mustFrontend(t, "10.96.0.9:80/TCP")]
	if len(failure.Failed) != 1 || reason == nil || !strings.Contains(reason.Error(), `"none"`) {
		t.Errorf("failed: got %v, want the one with the scheduler's name", failure.Failed)
	}
	good := plan(t, web+strings.Replace(bad, "none", "rr", 1))
	mustApply(t, b, vip.AfterPartial(want, failure), good)
	viptest.CheckPackets(t, dataplane{b, m}, good)
}

func TestHealing(t *testing.T) {
	t.Parallel()
	all := web + "service a/lb type=LoadBalancer ips=10.96.0.8 ports=80->30080 lb=203.0.113.1 etp=Local\nslice a ports=8080\nendpoint 172.16.1.1 node=n1\nendpoint 172.16.2.1 node=n2\n"
	tests := []struct {
		name   string
		damage func(*machine)
	}{
		{"X02 ipvsadm -C", func(m *machine) { clear(m.servers) }},
		{"X02 nft flush ruleset", func(m *machine) { _ = fakeTable{m}.Remove(t.Context()) }},
		{"X02 ip link del", func(m *machine) { clear(m.bound) }},
		{"X03 one weight edited", func(m *machine) {
			for _, s := range m.servers {
				for _, d := range s.destinations {
					d.weight = 5
				}
			}
		}},
		{"X03 one scheduler edited", func(m *machine) {
			for _, s := range m.servers {
				s.spec.scheduler = "sh"
			}
		}},
		{"X05 a dump that lacks entries", func(m *machine) { m.hide = func(k serverKey) bool { return k.mark == 0 } }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			b, want := m.backend(Config{}), plan(t, all)
			mustApply(t, b, nil, want)
			tt.damage(m)
			mustApply(t, b, nil, want)
			viptest.CheckPackets(t, dataplane{b, m}, want)
			tt.damage(m)
			mustApply(t, m.backend(Config{}), nil, want)
			viptest.CheckPackets(t, dataplane{b, m}, want)
			for key, s := range m.servers {
				if s.spec.scheduler != "rr" {
					t.Errorf("scheduler of %s: got %s, want rr", key, s.spec.scheduler)
				}
				for _, d := range s.destinations {
					if d.weight != weight {
						t.Errorf("weight of %s of %s: got %d, want %d", d.to, key, d.weight, weight)
					}
				}
			}
		})
	}
}

// TestCrash stops after every single write and has another process go on (X13).
func TestCrash(t *testing.T) {
	t.Parallel()
	before := plan(t, web)
	after := plan(t, "service a/lb type=LoadBalancer ips=10.96.0.8 ports=80->30080 lb=203.0.113.1 etp=Local ranges=198.18.0.0/15\nslice a ports=8080\nendpoint 172.16.1.1 node=n1\nendpoint 172.16.2.1 node=n2\n")
	for steps := range 100 {
		m := newMachine(t)
		b := m.backend(Config{})
		mustApply(t, b, nil, before)
		left := steps
		m.fail = func(string) error {
			if left--; left < 0 {
				return unix.EPERM
			}
			return nil
		}
		err := b.Apply(t.Context(), before, after)
		m.fail = nil
		next := m.backend(Config{})
		mustApply(t, next, nil, after)
		viptest.CheckPackets(t, dataplane{next, m}, after)
		mustApply(t, next, after, vip.NewState(after.Node()))
		if len(m.servers)+len(m.bound)+len(m.elements) > 0 {
			t.Fatalf("property 6, after %d steps: %d servers, %d addresses, %d elements are left", steps, len(m.servers), len(m.bound), len(m.elements))
		}
		if err == nil {
			return
		}
	}
	t.Error("an apply of more than 100 steps")
}

func mustFrontend(t testing.TB, text string) vip.Frontend {
	t.Helper()
	f, err := vip.ParseFrontend(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustAddrPort(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }
