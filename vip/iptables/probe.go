package iptables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Probe implements [vip.Backend]: it looks for the commands, reads the tables,
// and has them test a payload with each kind of rule. It writes nothing.
func (b *Backend) Probe(ctx context.Context) error {
	p := New(Config{Log: nil, Variant: string(b.forced), run: b.run})
	if err := p.open(ctx); err != nil {
		return fmt.Errorf("probing iptables: %w", err)
	}
	for _, plane := range p.planes {
		if plane.broken != nil {
			if plane.family.v6 {
				b.log.Warn("mode iptables works for IPv4 only", "reason", plane.broken)
				continue
			}
			return fmt.Errorf("probing iptables: %w", plane.broken)
		}
		if err := plane.probe(ctx); err != nil {
			return fmt.Errorf("probing iptables: %w", err)
		}
	}
	return nil
}

// probe tests each kind of rule that is needed.
func (p *plane) probe(ctx context.Context) error {
	for _, t := range tables {
		if _, err := p.tool.look(ctx, t); err != nil {
			return err
		}
	}
	for _, f := range features(p.family) {
		if err := p.feature(ctx, f.table, f.rule); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

type feature struct {
	name  string
	table table
	rule  string
}

// features lists what the rules need beside addresses and protocols (T-13).
func features(f *family) []feature {
	return []feature{
		{"match comment (xt_comment)", natTable, `-m comment --comment "probe" -j RETURN`},
		{"match conntrack (xt_conntrack)", filterTable, "-m conntrack --ctstate NEW,DNAT -j RETURN"},
		{"match addrtype (xt_addrtype)", natTable, "-m addrtype --src-type LOCAL -j RETURN"},
		{"match mark (xt_mark)", natTable, "-m mark --mark 0x4000/0x4000 -j RETURN"},
		{"target MARK (xt_mark)", natTable, mark},
		{"match statistic (xt_statistic)", natTable, "-m statistic --mode random --probability 0.5 -j RETURN"},
		{"target DNAT (xt_nat)", natTable, "-p tcp -j DNAT --to-destination :80"},
		{"target MASQUERADE (xt_MASQUERADE)", natTable, "-j MASQUERADE"},
		{"target REJECT", filterTable, "-j REJECT --reject-with " + f.refusal},
	}
}

// feature has one rule tested in a chain that is never made.
func (p *plane) feature(ctx context.Context, t table, text string) error {
	return p.tool.test(ctx, rewrite(t, []chain{static(tryChain, []string{text})}, nil).end())
}

// open chooses the variant and finds each family's commands; once. A family
// without commands costs its own frontends only (P-19).
func (b *Backend) open(ctx context.Context) error {
	if b.variant != "" {
		return nil
	}
	c := choice{variant: b.forced, why: "it was asked for"}
	if b.forced == "" {
		var err error
		if c, err = pickVariant(ctx, b.run); err != nil {
			return fmt.Errorf("choosing between iptables-nft and iptables-legacy: %w", err)
		}
	}
	for i, f := range []*family{ip4, ip6} {
		b.planes[i] = &plane{family: f}
		b.planes[i].try(ctx, b.run, c)
	}
	if err := b.planes[0].broken; err != nil && b.planes[1].broken != nil {
		return err
	}
	b.variant, b.choice = c.variant, c
	c.log(b.log)
	b.warnOfBridges()
	return nil
}

// try finds out whether the family's commands work, and what is missing. It can
// be tried again.
func (p *plane) try(ctx context.Context, run runner, c choice) {
	if p.tool, p.broken = locate(run, p.family, c.variant, c.plain); p.broken == nil {
		p.broken = errors.Join(p.tool.learn(p.family), p.works(ctx))
	}
	if p.broken == nil {
		p.lacks = p.missing(ctx)
	}
}

// works reports why the commands can't be used at all: a kernel without the
// family, say. A busy lock is no such reason.
func (p *plane) works(ctx context.Context) error {
	_, err := p.tool.dump(ctx, natTable)
	var e *toolError
	if errors.As(err, &e) && e.status != statusBusy {
		return err
	}
	return nil
}

// missing finds out which kinds of virtual servers can't be had.
func (p *plane) missing(ctx context.Context) lacks {
	var l lacks
	affinity := "-m recent --update --seconds 10 --reap --name signpost-probe --mask " + p.family.mask + " --rsource -j RETURN"
	if _, refused := refusal(p.feature(ctx, natTable, affinity)); refused {
		l.affinity = errors.New("session affinity needs the match recent (xt_recent), which is missing")
	}
	if _, err := os.Stat(sctpSetting); err != nil {
		l.sctp = fmt.Errorf("the kernel's connection tracking knows no SCTP (%s is missing)", sctpSetting)
	}
	return l
}

// warnOfBridges warns where pods on one bridge talk past the rules: a reply
// from one to the other is not translated back (T-14).
func (b *Backend) warnOfBridges() {
	for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"} {
		value, err := os.ReadFile("/proc/sys/net/bridge/" + name)
		if err == nil && strings.TrimSpace(string(value)) != "1" {
			b.log.Warn("pods on one bridge can't reach each other by services", "setting", "net/bridge/"+name, "wanted", 1)
		}
	}
}
