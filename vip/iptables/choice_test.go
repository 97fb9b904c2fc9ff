package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// machine is a runner of a machine with some commands, and what they show.
type machine struct {
	*fakeTables
	has     string            // names of commands, with blanks
	shows   map[string]string // by command: all tables
	version string
}

func (m machine) find(name string) (string, error) {
	if strings.Contains(" "+m.has+" ", " "+name+" ") {
		return name, nil
	}
	return "", fmt.Errorf("looking for %q: %w", name, fs.ErrNotExist)
}

func (m machine) run(ctx context.Context, stdin []byte, name string, args ...string) (string, string, error) {
	switch text, special := m.shows[name]; {
	case len(args) == 1 && args[0] == "--version":
		return m.version, "", nil
	case special && text == "broken":
		return "", "", &toolError{tool: name, status: statusOther, stderr: "Table does not exist (do you need to insmod?)"}
	case special && len(args) == 0:
		return text, "", nil
	}
	return m.fakeTables.run(ctx, stdin, name, args...)
}

const (
	nftCommands    = "iptables-nft iptables-nft-save iptables-nft-restore ip6tables-nft ip6tables-nft-save ip6tables-nft-restore "
	legacyCommands = "iptables-legacy iptables-legacy-save iptables-legacy-restore ip6tables-legacy ip6tables-legacy-save ip6tables-legacy-restore "
	plainCommands  = "iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore "
)

// T-09, X24: the variant that this machine's other programs use, and a warning
// if the other one holds rules.
func TestChoice(t *testing.T) {
	t.Parallel()
	const rules, hint, ours = "*nat\n-A X -j ACCEPT\n-A X -j ACCEPT\nCOMMIT\n", "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n", "*nat\n:SIGNPOST-SERVICES - [0:0]\nCOMMIT\n"
	for _, c := range []struct {
		name, has, nft, legacy, version string
		want                            variant
		warns                           bool
	}{
		{"neither has rules", nftCommands + legacyCommands + plainCommands, "", "", "iptables v1.8.9 (nf_tables)", nftVariant, false},
		{"neither has rules, legacy by default", nftCommands + legacyCommands + plainCommands, "", "", "iptables v1.8.9 (legacy)", legacyVariant, false},
		{"the kubelet's hint", nftCommands + legacyCommands, rules, hint, "", legacyVariant, true},
		{"our own rules", nftCommands + legacyCommands, ours, rules, "", nftVariant, true},
		{"more rules", nftCommands + legacyCommands, "", rules, "", legacyVariant, false},
		{"nft only", nftCommands, "", "", "", nftVariant, false},
		{"legacy only", legacyCommands, "", "", "", legacyVariant, false},
		{"nft not in the kernel", nftCommands + legacyCommands, "broken", "", "", legacyVariant, false},
		{"an old machine", plainCommands, "", "", "iptables v1.6.2", legacyVariant, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			shows := map[string]string{
				"iptables-nft-save": c.nft, "ip6tables-nft-save": c.nft, "iptables-legacy-save": c.legacy, "ip6tables-legacy-save": c.legacy,
			}
			var log bytes.Buffer
			b := New(Config{Log: slog.New(slog.NewTextHandler(&log, nil)), run: machine{newFakeTables(), c.has, shows, c.version}})
			if err := b.open(t.Context()); err != nil {
				t.Fatal(err)
			}
			warned := strings.Contains(log.String(), "the other iptables variant holds rules")
			if b.variant != c.want || warned != c.warns {
				t.Errorf("got %s (%s), warned %t", b.variant, b.choice.why, warned)
			}
		})
	}
}

// X07, X17: no commands at all, and none for IPv6.
func TestMissingCommands(t *testing.T) {
	t.Parallel()
	none := New(Config{run: machine{fakeTables: newFakeTables()}})
	if err := none.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), `"iptables"`) {
		t.Errorf("no commands: %v", err)
	}
	if err := none.Apply(t.Context(), nil, vip.NewState(testNode)); err == nil {
		t.Error("no commands: no error")
	}
	b := New(Config{Variant: "nft", run: machine{fakeTables: newFakeTables(), has: "iptables-nft iptables-nft-save iptables-nft-restore"}})
	if err := b.Probe(t.Context()); err != nil {
		t.Errorf("IPv4 alone: %v", err)
	}
	want := world(t, strings.Replace(threeServices, "addrs=", "addrs=fd00:6::1,", 1)+"service a/six ips=fd00:96::1 ports=:80\n")
	err := b.Apply(t.Context(), nil, want)
	var partial *vip.PartialError
	if !errors.As(err, &partial) || len(partial.Failed) != 1 || !strings.Contains(err.Error(), "ip6tables-nft-save") {
		t.Errorf("without ip6tables: %v", err)
	}
}

// oddities is a runner whose iptables-save has its own ways.
type oddities struct{ *fakeTables }

func (o oddities) run(ctx context.Context, stdin []byte, name string, args ...string) (string, string, error) {
	out, problems, err := o.fakeTables.run(ctx, stdin, name, args...)
	return strings.ReplaceAll(out, "-m tcp --dport", "--dport"), problems, err
}

// A version that shows rules otherwise than they are written costs a second
// look and a second write, not one at each look; an edit is noticed all the same.
func TestOtherDialect(t *testing.T) {
	t.Parallel()
	fake := newFakeTables()
	b := New(Config{Variant: "nft", run: oddities{fake}})
	want := world(t, threeServices)
	mustApply(t, b, nil, want)
	mustApply(t, b, nil, want)
	fake.writes++ // somebody else's
	mustApply(t, b, nil, want)
	before := fake.writes
	fake.writes++
	mustApply(t, b, nil, want)
	if fake.writes != before+1 {
		t.Error("a look wrote although nothing had changed")
	}
	before = fake.writes
	rules := fake.table("iptables-nft", "nat")["SIGNPOST-S-01-00"]
	rules[0], rules[1] = rules[1], rules[0]
	fake.writes++
	mustApply(t, b, nil, want)
	if fake.writes == before+1 {
		t.Error("an edit was not noticed")
	}
}

// What the rules of a few virtual servers are, as doc.go tells it.
func TestRules(t *testing.T) {
	t.Parallel()
	const head = "node n addrs=192.168.6.1 nodeports=192.168.6.1 pods=172.16.0.0/16 services=10.96.0.0/16\n"
	for name, c := range map[string]struct{ world, nat, filter string }{
		"F-01 plain": {
			"service a/web ips=10.96.0.1 ports=http:80\nslice s ports=http:8080\nendpoint 172.16.1.1 node=m\nendpoint 172.16.1.2 node=m",
			`-A SIGNPOST-S-01-00 -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -m comment --comment "a/web:http" -j SIGNPOST-MARK-NO
-A SIGNPOST-S-01-00 -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 172.16.1.1:8080
-A SIGNPOST-S-01-00 -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 172.16.1.2:8080
`, "",
		},
		"F-15 no endpoint": {
			"service a/web ips=10.96.0.33 ports=:53/UDP",
			"-A SIGNPOST-S-01-01 -d 10.96.0.33/32 -p udp -m udp --dport 53 -m comment --comment \"a/web\" -j ACCEPT\n",
			"-A SIGNPOST-S-01-01 -d 10.96.0.33/32 -p udp -m udp --dport 53 -m comment --comment \"a/web\" -j SIGNPOST-REFUSE\n",
		},
		"F-16 a cluster address outside of the ranges": {
			"service a/web ips=10.97.0.1 ports=:80\nslice s ports=:8080\nendpoint 172.16.1.1 node=m",
			`-A SIGNPOST-S-01-00 -d 10.97.0.1/32 -p tcp -m tcp --dport 80 -m comment --comment "a/web" -j SIGNPOST-MARK-NO
-A SIGNPOST-S-01-00 -d 10.97.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 172.16.1.1:8080
`,
			"-A SIGNPOST-S-01-00 -d 10.97.0.1/32 -j SIGNPOST-UNASSIGNED\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(ip4, testNode, settings{})
			touched := map[group]bool{}
			for v := range world(t, head+c.world).All() {
				l.move(v.Frontend, v, touched)
			}
			for table, want := range map[table]string{natTable: c.nat, filterTable: c.filter} {
				got := ""
				for _, g := range sorted(touched) {
					for _, ch := range l.compile(table, g) {
						for _, r := range ch.rules {
							got += "-A " + ch.name + " " + r.text + "\n"
						}
					}
				}
				if got != want {
					t.Errorf("%s:\n%s\nwant\n%s", table, got, want)
				}
			}
		})
	}
}

// F-02: names never are too long, and differ for different frontends.
func TestChainNames(t *testing.T) {
	t.Parallel()
	seen := map[string]vip.Frontend{}
	random := viptest.Rand(t)
	for range 2000 {
		f := vip.NodePortFrontend(random.IntN(2) == 0, uint16(random.Uint32()), discovery.Protocol(random.IntN(3)))
		name := chainName("V", f)
		if other, taken := seen[name]; taken && other != f || len(name) > 28 {
			t.Fatalf("%s: %s and %s", name, f, other)
		}
		seen[name] = f
		if g := groupOf(f); len(g.chain()) > 28 {
			t.Fatal(g.chain())
		}
	}
}
