package iptables

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"signpost/vip"
)

func sh(t testing.TB, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// with replaces IPT by a variant's command.
func with(v variant, script string) string {
	return strings.ReplaceAll(script, "IPT", "iptables-"+string(v))
}

// Others' rules stay as they are, whatever we do among them (contract 7), and
// our jumps come before theirs (B58).
func TestForeignRules(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		sh(t, with(v, `IPT -t nat -N DOCKER; IPT -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
			IPT -t nat -A DOCKER -p tcp --dport 81 -j DNAT --to-destination 10.9.9.9:80
			IPT -A FORWARD -m comment --comment 'not SIGNPOST-SERVICES; "really"' -j ACCEPT; IPT -P FORWARD DROP; IPT -N SIGN; IPT -A INPUT -j SIGN`))
		before := dump(t, v)
		want := world(t, threeServices)
		b := newBackend(t, v)
		mustApply(t, b, nil, want)
		jumpFirst := func() {
			t.Helper()
			rules := strings.Split(sh(t, with(v, "IPT -S FORWARD")), "\n")
			if !strings.HasSuffix(rules[1], servicesChain) || !strings.HasSuffix(rules[2], straysChain) || !strings.HasSuffix(rules[3], forwardChain) || strings.Count(strings.Join(rules, ""), forwardChain) != 1 {
				t.Errorf("jumps: %q", rules)
			}
		}
		jumpFirst()
		sh(t, with(v, "IPT -I FORWARD -p udp -j ACCEPT")) // B58: ahead of ours
		mustApply(t, b, nil, want)
		jumpFirst()
		sh(t, with(v, "IPT -D FORWARD -p udp -j ACCEPT"))
		for range 2 { // T-10: idempotent
			if err := b.Cleanup(t.Context()); err != nil {
				t.Fatal(err)
			}
			sameRules(t, dump(t, v), before)
		}
	})
}

// X14: what another version left is adopted or removed; what others refer to
// can't be (B65, "Too many links").
func TestLeftovers(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		sh(t, with(v, `IPT -t nat -N SIGNPOST-OLD; IPT -t nat -N SIGNPOST-OLDER; IPT -t nat -A SIGNPOST-OLD -j SIGNPOST-OLDER
			IPT -t nat -A SIGNPOST-OLDER -p udp -j RETURN
			IPT -t nat -I PREROUTING -p tcp -m comment --comment 'an "older" version' -j SIGNPOST-OLD
			IPT -t nat -N SIGNPOST-SERVICES; IPT -t nat -A OUTPUT -j SIGNPOST-SERVICES; IPT -t nat -A OUTPUT -j SIGNPOST-SERVICES`))
		want := world(t, threeServices)
		b := newBackend(t, v)
		mustApply(t, b, nil, want)
		if text := dump(t, v); strings.Contains(text, "OLD") || strings.Count(text, "-A OUTPUT -j SIGNPOST-SERVICES") != 2 { // one a family
			t.Errorf("leftovers:\n%s", text)
		}
		sh(t, with(v, `IPT -t nat -N THEIRS; IPT -t nat -N SIGNPOST-OLD; IPT -t nat -A SIGNPOST-OLD -p udp -j RETURN; IPT -t nat -A THEIRS -j SIGNPOST-S-01`))
		gone := world(t, strings.Split(threeServices, "\n")[0])
		mustApply(t, b, want, gone)
		mustApply(t, newBackend(t, v), nil, gone)
		if text := dump(t, v); strings.Contains(text, "OLD") {
			t.Errorf("leftovers:\n%s", text)
		}
	})
}

// X02, X03, B63: whatever another program does to our rules is noticed once it
// has finished, and made good; what we write ourselves is not.
func TestWatch(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		want := world(t, threeServices)
		b := newBackend(t, v)
		drifts, stop := watch(t, b)
		defer stop()
		mustApply(t, b, nil, want)
		right := dump(t, v)
		none(t, drifts, "our own first write")
		mustApply(t, b, want, world(t, strings.Replace(threeServices, "172.16.1.1", "172.16.1.9", 1)))
		mustApply(t, b, nil, want)
		none(t, drifts, "our own change")
		for name, script := range map[string]string{
			"a flush in steps": `for t in nat filter mangle; do IPT -t $t -F; sleep 0.2; IPT -t $t -X || true; sleep 0.2; done`,
			"a jump":           `IPT -t nat -D PREROUTING -j SIGNPOST-SERVICES`,
			"one rule":         `IPT -t nat -D SIGNPOST-S-01-00 1`,
			"a rule before":    `IPT -I FORWARD -j ACCEPT; sleep 0.1; IPT -D FORWARD 1; IPT -D FORWARD 1`,
			"the other family": strings.ReplaceAll(`IPT -t nat -F`, "IPT", "ip6tables-"+string(v)),
		} {
			sh(t, with(v, script))
			ended := time.Now()
			select {
			case <-drifts:
			case <-time.After(5 * time.Second):
				t.Fatalf("%s: not noticed", name)
			}
			mustApply(t, b, nil, want)
			for len(drifts) > 0 { // noticed on the way, and made good in the end
				<-drifts
			}
			if took := time.Since(ended); took > 2*time.Second {
				t.Errorf("%s: healed after %s", name, took)
			}
			sameRules(t, dump(t, v), right)
		}
	})
}

// The foreign flush of another program's own chains is none of our business.
func TestWatchOverlooksOthers(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		if v == legacyVariant {
			return // only sizes are known there, and a look costs little
		}
		b := newBackend(t, v)
		want := world(t, threeServices)
		mustApply(t, b, nil, want)
		drifts, stop := watch(t, b)
		defer stop()
		sh(t, with(v, `IPT -N OTHER; IPT -A OTHER -j ACCEPT; IPT -t mangle -N OTHER; IPT -F OTHER; nft add table ip more`))
		none(t, drifts, "others' chains")
	})
}

// watch runs the watch on this thread's namespace.
func watch(t *testing.T, b *Backend) (<-chan struct{}, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	drifts, done := make(chan struct{}, 100), make(chan error, 1)
	inThisNamespace(t, func() { done <- b.Watch(ctx, func() { drifts <- struct{}{} }) })
	return drifts, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// none checks that nothing is noticed for some time.
func none(t *testing.T, drifts <-chan struct{}, name string) {
	t.Helper()
	select {
	case <-drifts:
		t.Errorf("%s was taken for somebody else's", name)
	case <-time.After(1200 * time.Millisecond):
	}
}

var _ vip.Watcher = (*Backend)(nil)
