package ruleset_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	nft "github.com/google/nftables"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"signpost/vip/internal/ruleset"
	"signpost/vip/viptest"
)

const tableName = "signpost-test"

var (
	gates  = &ruleset.Set{Name: "gates", Key: []nft.SetDatatype{nft.TypeIPAddr, nft.TypeInetProto, nft.TypeInetService}, Data: []nft.SetDatatype{nft.TypeVerdict}}
	marks  = &ruleset.Set{Name: "marks", Key: []nft.SetDatatype{nft.TypeIP6Addr, nft.TypeMark}, Data: []nft.SetDatatype{nft.TypeMark}}
	ranges = &ruleset.Set{Name: "ranges", Key: []nft.SetDatatype{nft.TypeInetService, nft.TypeIPAddr}, Intervals: true}
	hosts  = &ruleset.Set{Name: "hosts", Key: []nft.SetDatatype{nft.TypeIPAddr}}
	recent = &ruleset.Set{Name: "recent", Key: []nft.SetDatatype{nft.TypeIPAddr}, Limit: 10}
	sets   = []*ruleset.Set{gates, marks, ranges, hosts, recent}
)

// chains uses every kind of rule.
func chains() []ruleset.Chain {
	f, one := ruleset.IPv4, ruleset.One
	hook := &ruleset.Hook{Type: nft.ChainTypeNAT, At: nft.ChainHookPrerouting, Priority: nft.ChainPriorityNATDest}
	late := &ruleset.Hook{Type: nft.ChainTypeNAT, At: nft.ChainHookPostrouting, Priority: nft.ChainPriorityNATSource}
	return []ruleset.Chain{
		{Name: "in", Hook: hook, Rules: []ruleset.Rule{
			ruleset.NewRule("by frontend", f.IfFamily(), f.LoadFrontend(ruleset.First), one(ruleset.LookUp(gates, ruleset.Verdict))),
			ruleset.NewRule("by network", f.IfFamily(), f.IfSource(netip.MustParsePrefix("10.0.0.0/8")), one(ruleset.Jump("refuse"))),
			ruleset.NewRule("by destination", f.IfFamily(), f.IfDestination(netip.MustParsePrefix("10.96.0.0/12")), one(ruleset.GoTo("refuse"))),
			ruleset.NewRule("by interface", ruleset.IfInterface("veth"), one(ruleset.Return())),
			ruleset.NewRule("of this node", ruleset.IfFromThisNode(), one(ruleset.Return())),
			ruleset.NewRule("an error", f.IfFamily(), f.IfICMP(), ruleset.IfRelated(), ruleset.IfToServer(),
				f.LoadQuotedFrontend(ruleset.First), one(ruleset.LookUp(gates, ruleset.Verdict))),
		}},
		{Name: "refuse", Rules: []ruleset.Rule{
			ruleset.NewRule("answered", ruleset.IfNew(), one(ruleset.Drop())),
			ruleset.NewRule("tcp", ruleset.IfProtocol(6), one(ruleset.Reset())),
			ruleset.NewRule("udp", ruleset.IfProtocol(17), one(ruleset.Drop())),
			ruleset.NewRule("else", one(ruleset.Unreachable())),
		}},
		{Name: "out", Hook: late, Rules: []ruleset.Rule{
			ruleset.NewRule("marked", ruleset.IfMarked(1<<14), ruleset.ChangeMark(1<<14, 1), one(ruleset.Masquerade())),
			ruleset.NewRule("known", f.IfFamily(), one(f.LoadSource(ruleset.First), ruleset.InSet(hosts)), one(ruleset.Masquerade())),
		}},
	}
}

func elements() []ruleset.Element {
	key := ruleset.AppendPort(ruleset.AppendProtocol(ruleset.AppendAddr(nil, netip.MustParseAddr("10.96.0.7")), 6), 80)
	mark := ruleset.AppendNumber(ruleset.AppendAddr(nil, netip.MustParseAddr("fd00:96::7")), 2)
	first, last := ruleset.Interval(ruleset.AppendPort(nil, 80), netip.MustParsePrefix("198.18.0.0/15"))
	return []ruleset.Element{
		{Set: gates, Key: string(key), Chain: "refuse"},
		{Set: marks, Key: string(mark), Value: string(ruleset.AppendNumber(nil, 0x12800))},
		{Set: ranges, Key: first, Last: last},
		{Set: hosts, Key: string(ruleset.AppendAddr(nil, netip.MustParseAddr("10.96.0.7")))},
	}
}

func open(t *testing.T) *ruleset.Conn {
	t.Helper()
	c, err := ruleset.Open(tableName, sets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func commit(t *testing.T, c *ruleset.Conn, tx *ruleset.Transaction) {
	t.Helper()
	if err := c.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
}

func look(t *testing.T, c *ruleset.Conn) *ruleset.Contents {
	t.Helper()
	found, err := c.Look(t.Context(), chains())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestRoundTrip(t *testing.T) {
	viptest.InNamespace(t)
	c := open(t)
	if found := look(t, c); found.Usable || len(found.Elements) > 0 {
		t.Errorf("an empty kernel: got %+v", found)
	}
	if err := c.Try(t.Context(), chains()); err != nil {
		t.Fatalf("trying: %v", err)
	}
	if look(t, c).Usable {
		t.Error("a table that was tried stays")
	}
	commit(t, c, &ruleset.Transaction{Create: true, Chains: chains(), Add: elements()})
	found := look(t, c)
	want := map[ruleset.Slot]ruleset.Element{}
	for _, e := range elements() {
		want[e.Slot()] = e
	}
	if !found.Usable || !maps.Equal(want, found.BySlot()) {
		t.Errorf("what was written is not what is read: usable %t, %v", found.Usable, found.Elements)
	}
	for _, chain := range chains() {
		if !found.Has(chain) {
			t.Errorf("chain %q is not recognised", chain.Name)
		}
		chain.Rules = chain.Rules[1:]
		if found.Has(chain) {
			t.Errorf("chain %q is recognised without its first rule", chain.Name)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "nft", "list", "ruleset").CombinedOutput(); err != nil {
		t.Errorf("nft can't list it: %v: %s", err, out)
	}
	commit(t, c, &ruleset.Transaction{Del: elements()[:1], Unmake: []string{"in"}})
	if found := look(t, c); len(found.Elements) != 3 || found.Has(chains()[0]) {
		t.Errorf("after a deletion: %d elements", len(found.Elements))
	}
	for range 2 {
		if err := errors.Join(c.Empty(t.Context(), "out", "nowhere"), c.Remove(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// X03: a table that somebody put to sleep is as good as none; so is one whose
// set has another shape. A chain that hangs elsewhere is not there.
func TestLookAtDamage(t *testing.T) {
	viptest.InNamespace(t)
	c := open(t)
	for _, test := range []struct {
		name, command string
		usable, has   bool
	}{
		{"asleep", "add table inet " + tableName + " { flags dormant; }", false, false},
		{"a set too few", "delete set inet " + tableName + " ranges", false, false},
		{"a base chain elsewhere", "delete chain inet " + tableName + " in; add chain inet " + tableName + " in { type nat hook prerouting priority -150; }", true, false},
		{"a chain more, which hangs somewhere", "add chain inet " + tableName + " more { type filter hook input priority 0; }", true, true},
	} {
		commit(t, c, &ruleset.Transaction{Create: true, Chains: chains()})
		if out, err := exec.CommandContext(t.Context(), "nft", test.command).CombinedOutput(); err != nil {
			t.Errorf("%s: nft: %v: %s", test.name, err, out)
			continue
		}
		found := look(t, c)
		if found.Usable != test.usable || found.Has(chains()[0]) != test.has {
			t.Errorf("%s: usable %t, has the chain %t", test.name, found.Usable, found.Has(chains()[0]))
		}
		if _, exists := found.Chains["more"]; exists {
			t.Errorf("%s: it is taken for one of ours", test.name)
		}
	}
}

func TestAllOrNothing(t *testing.T) {
	viptest.InNamespace(t)
	c := open(t)
	commit(t, c, &ruleset.Transaction{Create: true, Chains: chains()})
	before, err := c.Generation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bad := elements()
	bad[0].Chain = "nowhere"
	if err := c.Commit(t.Context(), &ruleset.Transaction{Add: bad}); err == nil {
		t.Error("an element that leads nowhere is taken")
	}
	after, err := c.Generation(t.Context())
	if err != nil || after != before || len(look(t, c).Elements) != 0 {
		t.Errorf("a refused transaction leaves something behind: generation %v then %v, %v", before, after, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Commit(ended, &ruleset.Transaction{Add: elements()}); err == nil {
		t.Error("a transaction after the end of its context is taken")
	}
}

func TestWatch(t *testing.T) {
	viptest.InNamespace(t)
	c := open(t)
	commit(t, c, &ruleset.Transaction{Create: true, Chains: chains()})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	meddle := func() {
		for i := 0; ctx.Err() == nil; i++ { // nothing tells when the watch has begun
			if out, err := exec.Command("nft", "add", "chain", "inet", tableName, fmt.Sprint("x", i)).CombinedOutput(); err != nil {
				t.Errorf("nft: %v: %s", err, out)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
	drifts := 0
	damaged := inThisNamespace(t, meddle)
	err := ruleset.Watch(ctx, tableName, c.Port, func() { drifts++; cancel() })
	<-damaged
	if err != nil || drifts != 1 {
		t.Errorf("B63 somebody else's changes: got %d reports, error %v", drifts, err)
	}
}

// inThisNamespace runs a function in
// another thread of the calling thread's network namespace.
func inThisNamespace(t *testing.T, f func()) <-chan struct{} {
	t.Helper()
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer here.Close()
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := netns.Set(here); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	return done
}

func TestReason(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		unix.EPERM: "permission denied: CAP_NET_ADMIN is needed", unix.EPROTONOSUPPORT: "the kernel has no nf_tables",
		unix.EOPNOTSUPP: "the kernel lacks it", errors.New("conn.Receive: odd"): "odd",
	} {
		if got := ruleset.Reason(fmt.Errorf("writing: %w", err), "it"); got != want && !strings.HasSuffix(got, want) {
			t.Errorf("Reason(%v) = %q, want %q", err, got, want)
		}
	}
}
