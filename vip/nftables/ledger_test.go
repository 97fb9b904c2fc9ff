package nftables

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
	"signpost/vip/viptest"
)

// strict is a kernel that knows sets and chains and no mercy: what is added
// must not be there, what is deleted must be, and a chain that somebody goes to
// stays.
type strict struct {
	elements map[ruleset.Slot]ruleset.Element
	chains   map[string][]string
}

func (k *strict) commit(t *ruleset.Transaction) error {
	for _, c := range t.Chains {
		k.chains[c.Name] = c.Labels()
	}
	for _, e := range t.Del {
		if _, there := k.elements[e.Slot()]; !there {
			return fmt.Errorf("deleting %s: it is not there", describeElement(e))
		}
		delete(k.elements, e.Slot())
	}
	for _, e := range t.Add {
		if _, there := k.elements[e.Slot()]; there {
			return fmt.Errorf("adding %s: it is there", describeElement(e))
		}
		if _, there := k.chains[e.Chain]; e.Chain != "" && !there && e.Chain != rejectChain && e.Chain != dropChain {
			return fmt.Errorf("adding %s: there is no such chain", describeElement(e))
		}
		k.elements[e.Slot()] = e
	}
	for _, name := range t.Unmake {
		if _, there := k.chains[name]; !there {
			return fmt.Errorf("deleting chain %q: it is not there", name)
		}
		delete(k.chains, name)
	}
	for _, e := range k.elements {
		if slices.Contains(t.Unmake, e.Chain) {
			return fmt.Errorf("deleting chain %q: %s goes there", e.Chain, describeElement(e))
		}
	}
	return nil
}

// walk changes some servers at random.
func walk(random *rand.Rand, l *ledger) []step {
	var steps []step
	for range 1 + random.IntN(4) {
		v := randomServer(random)
		if slices.ContainsFunc(steps, func(s step) bool { return s.frontend == v.Frontend }) {
			continue
		}
		before := l.entries[v.Frontend]
		s := step{frontend: v.Frontend, before: before, after: entryFor(v, before)}
		if random.IntN(3) == 0 {
			s.after = nil
		}
		if s.before != nil || s.after != nil {
			steps = append(steps, s)
		}
	}
	return steps
}

// A random walk: each transaction is one that a kernel takes, after each the
// kernel holds what the servers need, no more, and the ledger's counts are
// those that counting anew gives. A transaction that is taken back leaves no
// trace.
func TestLedger(t *testing.T) {
	t.Parallel()
	random := viptest.Rand(t)
	l := newLedger(newContents())
	l.found = nil
	k := &strict{elements: map[ruleset.Slot]ruleset.Element{}, chains: map[string][]string{}}
	var detector vip.Detector
	for range 400 {
		steps := walk(random, l)
		if random.IntN(4) == 0 {
			before := snapshot(l)
			_, undo := l.plan(steps, detector)
			undo()
			if after := snapshot(l); !reflect.DeepEqual(before, after) {
				t.Fatalf("taken back: got %v, want %v", after, before)
			}
			continue
		}
		transaction, _ := l.plan(steps, detector)
		if err := k.commit(transaction); err != nil {
			t.Fatal(err)
		}
		checkLedger(t, l, k)
	}
	var all []step
	for f, e := range l.entries {
		all = append(all, step{frontend: f, before: e})
	}
	transaction, _ := l.plan(all, detector)
	if err := k.commit(transaction); err != nil {
		t.Fatal(err)
	}
	if len(k.elements)+len(k.chains)+len(l.entries)+len(l.shared)+len(l.chains) > 0 {
		t.Errorf("without servers there are %v, %v", k.elements, k.chains)
	}
}

type counts struct {
	entries map[vip.Frontend]*entry
	shared  map[ruleset.Slot]int
	chains  map[string]int
}

func snapshot(l *ledger) counts {
	return counts{maps.Clone(l.entries), maps.Clone(l.shared), maps.Clone(l.chains)}
}

func checkLedger(t *testing.T, l *ledger, k *strict) {
	t.Helper()
	want := counts{entries: l.entries, shared: map[ruleset.Slot]int{}, chains: map[string]int{}}
	elements := map[ruleset.Slot]ruleset.Element{}
	for _, e := range l.entries {
		own, shared := e.elements()
		for _, el := range own {
			elements[el.Slot()] = el
		}
		for _, el := range shared {
			elements[el.Slot()] = el
			want.shared[el.Slot()]++
		}
		for _, name := range e.class.names() {
			want.chains[name]++
		}
	}
	if got := snapshot(l); !maps.Equal(got.shared, want.shared) || !maps.Equal(got.chains, want.chains) {
		t.Fatalf("counts: got %v, want %v", got, want)
	}
	if !maps.Equal(k.elements, elements) {
		t.Fatalf("elements: got %v, want %v", k.elements, elements)
	}
	if got, want := slices.Sorted(maps.Keys(k.chains)), slices.Sorted(maps.Keys(want.chains)); !slices.Equal(got, want) {
		t.Fatalf("chains: got %v, want %v", got, want)
	}
}

// A chain never changes, because its name says what it does: no two servers
// have chains of one name that differ, and no name is too long for the kernel.
func TestChainNames(t *testing.T) {
	t.Parallel()
	random := viptest.Rand(t)
	const longest = 255 // NFT_CHAIN_MAXNAMELEN less its terminator
	detector := vip.Detector{CIDRs: testNode.Detector.CIDRs, InterfacePrefix: "pod"}
	rules := map[string][]string{}
	for range 5000 {
		c := classOf(randomServer(random))
		for _, name := range c.names() {
			if len(name) > longest {
				t.Fatalf("chain %q: its name has %d bytes", name, len(name))
			}
			comments := c.chain(name, detector).Labels()
			if len(comments) == 0 {
				t.Fatalf("chain %q has no rules", name)
			}
			if before, seen := rules[name]; seen && !slices.Equal(before, comments) {
				t.Fatalf("chain %q: once %q, then %q", name, before, comments)
			}
			rules[name] = comments
		}
	}
}
