package iptables

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// variant is one of the two kinds of iptables: they write to different places
// in the kernel, and a packet passes both (T-09).
type variant string

const (
	nftVariant    variant = "nft"
	legacyVariant variant = "legacy"
)

// tool is one family's commands.
type tool struct {
	run         runner
	variant     variant
	save        string
	restore     string
	randomFully bool
}

// restoreArgs: wait five seconds for the lock, and look ten times a second (T-07).
var restoreArgs = []string{"--noflush", "--counters", "-w", "5", "-W", "100000"}

// write carries out a payload: all of it or nothing.
func (t *tool) write(ctx context.Context, payload []byte) error {
	_, err := t.run.run(ctx, payload, t.restore, restoreArgs...)
	return err
}

// test has the commands look at a payload, with all that they ask the kernel
// about its rules, and writes nothing.
func (t *tool) test(ctx context.Context, payload []byte) error {
	_, err := t.run.run(ctx, payload, t.restore, append(restoreArgs[:len(restoreArgs):len(restoreArgs)], "--test")...)
	return err
}

// dump returns a table as iptables-save shows it.
func (t *tool) dump(ctx context.Context, name table) (string, error) {
	out, err := t.run.run(ctx, nil, t.save, "-t", name.String())
	return string(out), err
}

// dumpAll returns all tables that there are; asking makes none.
func (t *tool) dumpAll(ctx context.Context) (string, error) {
	out, err := t.run.run(ctx, nil, t.save)
	return string(out), err
}

// command is the name of a family's command: "ip6tables-nft-save".
func command(f *family, v variant, suffix string) string {
	name := "iptables"
	if f.v6 {
		name = "ip6tables"
	}
	if v != "" {
		name += "-" + string(v)
	}
	return name + suffix
}

// locate finds one family's commands of a variant; by names without it, where
// a machine has but one.
func locate(run runner, f *family, v variant, plain bool) (*tool, error) {
	t := &tool{run: run, variant: v}
	if plain {
		v = ""
	}
	var err error
	if t.save, err = run.find(command(f, v, "-save")); err != nil {
		return nil, err
	}
	if t.restore, err = run.find(command(f, v, "-restore")); err != nil {
		return nil, err
	}
	path, err := run.find(command(f, v, ""))
	if err != nil {
		return nil, err
	}
	t.randomFully, err = run.randomFully(path)
	return t, err
}

// choice is the variant in use, and what it says of the other one.
type choice struct {
	variant  variant
	why      string
	plain    bool   // there are no commands with the variant's name
	conflict string // rules that the other variant holds; empty: none
}

// pickVariant finds out which variant this machine's other programs use: the kubelet
// leaves a hint; else it is the one that has our own rules, or more rules than
// the other, or the one that the command iptables is (T-09, X24).
func pickVariant(ctx context.Context, run runner) (choice, error) {
	traces := map[variant]trace{}
	for _, v := range []variant{nftVariant, legacyVariant} {
		if t, ok := traceOf(ctx, run, v); ok {
			traces[v] = t
		}
	}
	nft, hasNFT := traces[nftVariant]
	legacy, hasLegacy := traces[legacyVariant]
	c := choice{variant: nftVariant}
	switch {
	case !hasNFT && !hasLegacy:
		return plainVariant(ctx, run)
	case !hasNFT, !hasLegacy:
		c.why = "the only one that works"
		if hasLegacy {
			c.variant = legacyVariant
		}
		return c, nil
	case nft.hint != legacy.hint:
		c.why, c.variant = "the kubelet uses it", preferring(nft.hint)
	case nft.ours != legacy.ours:
		c.why, c.variant = "it has our rules", preferring(nft.ours)
	case nft.rules != legacy.rules:
		c.why, c.variant = "it has more rules", preferring(nft.rules > legacy.rules)
	default:
		plain, err := plainVariant(ctx, run)
		c.why = "neither has rules, and iptables is it"
		if err == nil {
			c.variant = plain.variant
		}
	}
	other := map[variant]trace{nftVariant: legacy, legacyVariant: nft}[c.variant]
	if other.rules > 0 {
		c.conflict = fmt.Sprintf("%d rules", other.rules)
	}
	return c, nil
}

func preferring(nft bool) variant {
	if nft {
		return nftVariant
	}
	return legacyVariant
}

// trace is what a variant's tables tell about who uses it.
type trace struct {
	hint, ours bool
	rules      int
}

func traceOf(ctx context.Context, run runner, v variant) (trace, bool) {
	var t trace
	found := false
	for _, f := range []*family{ip4, ip6} {
		tool, err := locate(run, f, v, false)
		if err != nil {
			continue
		}
		text, err := tool.dumpAll(ctx)
		if err != nil {
			continue
		}
		found = true
		t.hint = t.hint || strings.Contains(text, ":KUBE-IPTABLES-HINT ") || strings.Contains(text, ":KUBE-KUBELET-CANARY ")
		t.ours = t.ours || strings.Contains(text, "\n:"+prefix)
		t.rules += strings.Count(text, "\n-A ")
	}
	return t, found
}

// plainVariant says which variant the command iptables is.
func plainVariant(ctx context.Context, run runner) (choice, error) {
	path, err := run.find("iptables")
	if err != nil {
		return choice{}, err
	}
	out, err := run.run(ctx, nil, path, "--version")
	if err != nil {
		return choice{}, err
	}
	c := choice{variant: legacyVariant, why: "iptables is it", plain: true}
	if strings.Contains(string(out), "nf_tables") {
		c.variant = nftVariant
	}
	return c, nil
}

// log says which variant is used, and warns of a mixture: with both, a packet
// may be translated twice.
func (c choice) log(log *slog.Logger) {
	log.Info("chose the iptables variant", "variant", string(c.variant), "why", c.why)
	if c.conflict != "" {
		log.Warn("the other iptables variant holds rules too, and packets pass both", "variant", string(c.variant), "other", c.conflict)
	}
}
