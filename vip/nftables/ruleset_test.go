package nftables

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
	"signpost/vip/viptest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// memory is a kernel that holds what transactions tell it.
func memory(t *testing.T, want *vip.State) *contents {
	t.Helper()
	b := newBackend(t)
	b.ledger = newLedger(newContents())
	b.ledger.found = nil
	held := newContents()
	for _, c := range skeleton(want.Node(), false) {
		held.chains[c.Name] = c.Labels()
	}
	transaction, _ := b.ledger.plan(b.ledgerSteps(want), want.Node().Detector)
	for _, c := range transaction.Chains {
		held.chains[c.Name] = c.Labels()
	}
	for _, e := range append(transaction.Add, nodeElements(want.Node())...) {
		if f, ok := frontendIn(e); ok {
			held.entry(f).own = append(held.entry(f).own, e)
		} else {
			held.shared[e.Slot()] = true
		}
	}
	return held
}

// TestRuleset shows a ruleset as a whole. The golden file is there to be read,
// and to show in a review what a change of the rules comes to.
func TestRuleset(t *testing.T) {
	t.Parallel()
	got := memory(t, worldOf(t, largeWorld)).String()
	golden := filepath.Join("testdata", "ruleset.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the ruleset is another one (-update rewrites the file):\n%s", diff)
	}
}

// What the kernel shows is what was meant: the ruleset in memory and in the
// kernel are the same.
func TestRulesetInKernel(t *testing.T) {
	viptest.InNamespace(t)
	want := worldOf(t, largeWorld)
	mustApply(t, newBackend(t), nil, want)
	if diff := cmp.Diff(memory(t, want).String(), mustLook(t)); diff != "" {
		t.Error(diff)
	}
}

// The number of rules does not depend on the number of services.
func TestRulesPerService(t *testing.T) {
	t.Parallel()
	world := func(services int) string {
		text := nodeLine
		for i := range services {
			text += fmt.Sprintf("service a/s%d ips=10.96.%d.%d ports=80\nslice s ports=8080\nendpoint 172.16.0.1\nendpoint 172.16.0.2\n", i, 1+i/250, i%250)
		}
		return text
	}
	count := func(services int) int {
		n := 0
		for rules := range maps.Values(memory(t, worldOf(t, world(services))).chains) {
			n += len(rules)
		}
		return n
	}
	if few, many := count(1), count(500); few != many {
		t.Errorf("one service has %d rules, 500 have %d", few, many)
	}
}

// A rule's fingerprint tells rules apart that differ in anything.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	rules := []ruleset.Rule{
		ruleset.NewRule("", ruleset.IfProtocol(6)), ruleset.NewRule("", ruleset.IfProtocol(17)), ruleset.NewRule("", ruleset.IfMarked(masqueradeMark)), ruleset.NewRule("", ruleset.ChangeMark(0, masqueradeMark)), ruleset.NewRule("", ruleset.ChangeMark(masqueradeMark, 0)),
		ruleset.NewRule("", one(randomIndex(ruleset.First, 2))), ruleset.NewRule("", one(randomIndex(ruleset.First, 3))),
		ruleset.NewRule("", one(ruleset.GoTo("a"))), ruleset.NewRule("", one(ruleset.GoTo("b"))), ruleset.NewRule("", one(ruleset.Jump("a"))), ruleset.NewRule("", one(ruleset.Drop())),
		ruleset.NewRule("", one(ruleset.InSet(setsOf[ruleset.IPv4].hairpin))), ruleset.NewRule("", one(ruleset.InSet(setsOf[ruleset.IPv6].hairpin))),
		ruleset.NewRule("", ruleset.IPv4.IfSource(testNode.Detector.CIDRs[0])), ruleset.NewRule("", ruleset.IPv4.IfDestination(testNode.Detector.CIDRs[0])),
	}
	seen := map[string]int{}
	for i, r := range rules {
		if j, twice := seen[r.Label()]; twice {
			t.Errorf("rules %d and %d have one fingerprint", i, j)
		}
		seen[r.Label()] = i
	}
}

// X18: without the privilege, the reason is in the message, and a later
// attempt is not in the way.
func TestProbeWithoutPrivilege(t *testing.T) {
	viptest.NeedRoot(t)
	errs := make(chan error, 2)
	go func() {
		runtime.LockOSThread() // and ends with the goroutine: capabilities are the thread's
		var none [2]unix.CapUserData
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capset(&header, &none[0]); err != nil {
			errs <- fmt.Errorf("giving up privileges: %w", err)
			errs <- nil
			return
		}
		b := newBackend(t)
		errs <- b.Probe(t.Context())
		errs <- b.Apply(t.Context(), nil, vip.NewState(testNode))
	}()
	for _, what := range []string{"Probe", "Apply"} {
		err := <-errs
		if err == nil || !errors.Is(err, unix.EPERM) && !regexp.MustCompile("permission|not permitted").MatchString(err.Error()) {
			t.Errorf("%s: %v, want that something is not permitted", what, err)
		}
		t.Logf("%s: %v", what, err)
	}
}

// X05: what the kernel's errors come to. A refusal has a frontend to blame, all
// else means that nothing is known.
func TestRefusal(t *testing.T) {
	t.Parallel()
	for errno, want := range map[error]bool{
		unix.EINVAL: true, unix.EEXIST: true, unix.ENOENT: true, unix.EOPNOTSUPP: true, unix.EBUSY: true, unix.ENOMEM: true,
		unix.EPERM: false, unix.EINTR: false, unix.EAGAIN: false, unix.ENOBUFS: false, os.ErrDeadlineExceeded: false,
	} {
		if got := refusal(fmt.Errorf("writing: %w", errno)); got != want {
			t.Errorf("refusal(%v) = %v", errno, got)
		}
	}
}
