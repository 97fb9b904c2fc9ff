package vip_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signpost/vip"
)

func TestParseFrontend(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"10.96.0.1:443/TCP", "[fd00::1]:53/UDP", "0.0.0.0:30008/SCTP", "[::]:30008/TCP"} {
		if got := frontend(t, text).String(); got != text {
			t.Errorf("parsing %q: got %q", text, got)
		}
	}
	for _, text := range []string{"", "10.96.0.1", "10.96.0.1:443/QUIC", "10.96.0.300:1", "10.96.0.1:65536"} {
		if f, err := vip.ParseFrontend(text); err == nil {
			t.Errorf("parsing %q: got %s, want an error", text, f)
		}
	}
}

// TestStateTakeover is P-26: when the winner goes, the next in line gets the
// frontend, and removing the loser disturbs nobody.
func TestStateTakeover(t *testing.T) {
	t.Parallel()
	const first = "service a/first ips=10.0.0.1 ports=80 external=198.51.100.1 created=2026-01-01T00:00:00Z\n"
	const second = "service a/second ips=10.0.0.2 ports=80 external=198.51.100.1\n"
	p, shared := vip.Planner{}, frontend(t, "198.51.100.1:80")
	both, alone, winner := world(t, first+second), world(t, second), world(t, first)
	state := p.Plan(both.Snapshot, both.Node)
	if got := state.Get(shared).Owner; got != key("a/first") {
		t.Errorf("owner: got %s, want a/first", got)
	}
	if losers := state.Losers(shared); len(losers) != 1 || losers[0].Owner != key("a/second") {
		t.Errorf("losers: got %v, want a/second", losers)
	}
	if got := p.Next(state, both.Snapshot, alone.Snapshot, alone.Node).Get(shared).Owner; got != key("a/second") {
		t.Errorf("owner after the winner went: got %s, want a/second", got)
	}
	after := p.Next(state, both.Snapshot, winner.Snapshot, winner.Node)
	if after.Get(shared) == nil || after.Losers(shared) != nil {
		t.Error("the loser's going disturbs the winner")
	}
}

func TestStateWithout(t *testing.T) {
	t.Parallel()
	w := world(t, "service a/a ips=10.0.0.1 ports=80,81\nservice a/b ips=10.0.0.2 ports=80")
	state := vip.Planner{}.Plan(w.Snapshot, w.Node)
	failed := map[vip.Frontend]error{frontend(t, "10.0.0.1:80"): errors.New("x"), frontend(t, "10.9.9.9:80"): errors.New("x")}
	less := state.Without(failed)
	if diff := cmp.Diff([]string{"10.0.0.1:81/TCP", "10.0.0.2:80/TCP"}, frontends(less)); diff != "" || less.Len() != 2 {
		t.Errorf("without one (-want +got):\n%s", diff)
	}
	if state.Len() != 3 {
		t.Error("the state itself has changed")
	}
	for was, is := range vip.Changes(less, state) {
		if was != nil || is.Frontend != frontend(t, "10.0.0.1:80") {
			t.Errorf("difference: got %v -> %v", was, is)
		}
	}
}

func TestAfterPartial(t *testing.T) {
	t.Parallel()
	w := world(t, "service a/a ips=10.0.0.1 ports=80,81")
	want := vip.Planner{}.Plan(w.Snapshot, w.Node)
	wanted, gone := frontend(t, "10.0.0.1:80"), frontend(t, "10.0.0.9:80")
	held := vip.AfterPartial(want, &vip.PartialError{Failed: map[vip.Frontend]error{wanted: errors.New("x")}})
	if held == nil || held.Len() != 1 {
		t.Errorf("a wanted frontend failed: got %v, want the other one", held)
	}
	if held := vip.AfterPartial(want, &vip.PartialError{Failed: map[vip.Frontend]error{gone: errors.New("x")}}); held != nil {
		t.Errorf("a removal failed: got %v, want unknown", held)
	}
}

func TestPartialErrorNamesAll(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such module")
	err := error(&vip.PartialError{Failed: map[vip.Frontend]error{frontend(t, "10.0.0.2:80"): cause, frontend(t, "10.0.0.1:80"): errors.New("full")}})
	const want = "programming 2 virtual servers: 10.0.0.1:80/TCP: full; 10.0.0.2:80/TCP: no such module"
	if err.Error() != want || !errors.Is(err, cause) {
		t.Errorf("error: got %q", err)
	}
}

func TestAddrChanges(t *testing.T) {
	t.Parallel()
	before := world(t, "service a/a ips=10.0.0.1 ports=80 external=198.51.100.1\nservice a/b ips=10.0.0.2 ports=80")
	after := world(t, "service a/a ips=10.0.0.1 ports=80,81 external=198.51.100.2\nservice a/b ips=10.0.0.2 ports=80\nservice a/c type=LoadBalancer ips=10.0.0.3 ports=80 lb=198.51.100.2\n")
	p := vip.Planner{}
	old := p.Plan(before.Snapshot, before.Node)
	now := p.Next(old, before.Snapshot, after.Snapshot, after.Node)
	got := map[string][2]bool{}
	for a, c := range vip.AddrChanges(old, now) {
		got[a.String()] = [2]bool{c.Before != 0, c.After != 0}
	}
	want := map[string][2]bool{"10.0.0.3": {false, true}, "198.51.100.1": {true, false}, "198.51.100.2": {false, true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("addresses that changed (-want +got):\n%s", diff)
	}
	if k := now.Kinds(addrs("10.0.0.1")[0]); !k.Captured() || k.Has(vip.KindExternalIP) {
		t.Errorf("kinds of a cluster address: got %b", k)
	}
	if k := now.Kinds(addrs("198.51.100.2")[0]); k.Captured() {
		t.Errorf("kinds of an external address: got %b", k)
	}
}
