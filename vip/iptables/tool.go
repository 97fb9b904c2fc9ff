package iptables

import (
	"context"
	"errors"
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
	suffix      variant // in the commands' names; empty: they bear none
	save        string
	restore     string
	randomFully bool
}

// restoreArgs: wait five seconds for the lock, and look ten times a second (T-07).
var restoreArgs = []string{"--noflush", "--counters", "-w", "5", "-W", "100000"}

// write carries out a payload: all of it or nothing.
func (t *tool) write(ctx context.Context, payload []byte) error {
	_, _, err := t.run.run(ctx, payload, t.restore, restoreArgs...)
	return err
}

// test has the commands look at a payload, with all that they ask the kernel
// about its rules, and writes nothing.
func (t *tool) test(ctx context.Context, payload []byte) error {
	args := append(restoreArgs[:len(restoreArgs):len(restoreArgs)], "--test")
	_, problems, err := t.run.run(ctx, payload, t.restore, args...)
	if err == nil && strings.Contains(problems, "missing kernel module") {
		err = &toolError{tool: t.restore, status: statusOther, state: "a warning", stderr: problems}
	}
	return err
}

// dump returns a table as iptables-save shows it.
func (t *tool) dump(ctx context.Context, name table) (string, error) {
	out, _, err := t.run.run(ctx, nil, t.save, "-t", name.String())
	return out, err
}

// dumpAll returns all tables that there are; asking makes none.
func (t *tool) dumpAll(ctx context.Context) (string, error) {
	out, _, err := t.run.run(ctx, nil, t.save)
	return out, err
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
	t := &tool{run: run, suffix: v}
	if plain {
		t.suffix = ""
	}
	var err error
	if t.save, err = run.find(command(f, t.suffix, "-save")); err != nil {
		return nil, err
	}
	if t.restore, err = run.find(command(f, t.suffix, "-restore")); err != nil {
		return nil, err
	}
	return t, nil
}

// learn finds out what the commands can do.
func (t *tool) learn(f *family) error {
	path, err := t.run.find(command(f, t.suffix, ""))
	if err != nil {
		return err
	}
	t.randomFully, err = t.run.randomFully(path)
	return err
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
		t, works, err := traceOf(ctx, run, v)
		if err != nil {
			return choice{}, err
		}
		if works {
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

// traceOf reads a variant's tables, if its commands work here at all. An error
// says that this can't be told now.
func traceOf(ctx context.Context, run runner, v variant) (trace, bool, error) {
	var t trace
	works := false
	for _, f := range []*family{ip4, ip6} {
		tool, err := locate(run, f, v, false)
		if err != nil {
			continue // not there
		}
		text, err := tool.dumpAll(ctx)
		var no *toolError
		switch {
		case errors.As(err, &no) && (no.status == statusOther || no.status == statusUsage):
			continue // not in this kernel
		case err != nil:
			return trace{}, false, err
		}
		works = true
		t.hint = t.hint || strings.Contains(text, ":KUBE-IPTABLES-HINT ") || strings.Contains(text, ":KUBE-KUBELET-CANARY ")
		t.ours = t.ours || strings.Contains(text, "\n:"+prefix)
		t.rules += strings.Count(text, "\n-A ")
	}
	return t, works, nil
}

// plainVariant says which variant the command iptables is.
func plainVariant(ctx context.Context, run runner) (choice, error) {
	path, err := run.find("iptables")
	if err != nil {
		return choice{}, err
	}
	out, _, err := run.run(ctx, nil, path, "--version")
	if err != nil {
		return choice{}, err
	}
	c := choice{variant: legacyVariant, why: "iptables is it", plain: true}
	if strings.Contains(out, "nf_tables") {
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
