package nftables

import (
	"context"
	"fmt"
	"os"

	"github.com/google/nftables/expr"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// feature is something that the kernel may lack, with what needs it.
type feature struct {
	name   string
	sets   []*ruleset.Set
	chains []ruleset.Chain
}

// Probe implements [vip.Backend]: it has the kernel try a table with each kind
// of set and rule that the backend uses, and throw it away in the same
// transaction. Nothing of it is ever seen.
func (b *Backend) Probe(ctx context.Context) error {
	for _, f := range features() {
		if err := f.probe(ctx); err != nil {
			return fmt.Errorf("probing nftables: %w", err)
		}
	}
	return nil
}

func (f feature) probe(ctx context.Context) error {
	k, err := ruleset.Open(tableName+"-probe", f.sets)
	if err != nil {
		return err
	}
	defer func() { _ = k.Close() }()
	if err := k.Try(ctx, f.chains); err != nil {
		return fmt.Errorf("%s: %s", f.name, ruleset.Reason(err, "it"))
	}
	return nil
}

// features goes from the general to the particular, so that the first one
// refused is the one that is missing.
func features() []feature {
	rules := func(name string, hook *ruleset.Hook, exprs ...expr.Any) feature {
		chain := ruleset.Chain{Name: "probe", Hook: hook, Rules: []ruleset.Rule{ruleset.NewRule(name, exprs)}}
		return feature{name: name, chains: []ruleset.Chain{chain}}
	}
	return []feature{
		{name: "tables of family inet"},
		rules("chains of type nat", prerouting),
		rules("random numbers (nft_numgen)", prerouting, randomIndex(ruleset.First, 2)),
		rules("address types (nft_fib_inet)", prerouting, ruleset.IfFromThisNode()...),
		rules("refusals before routing (nft_reject_inet, kernel 5.9)", prerouting, ruleset.Unreachable()),
		rules("masquerading (nft_masq)", postrouting, ruleset.Masquerade()),
		{name: "its sets and chains", sets: allSets, chains: skeleton(&vip.Node{}, false)},
	}
}

// sctpSetting exists where conntrack knows SCTP, without which it can't be translated.
const sctpSetting = "/proc/sys/net/netfilter/nf_conntrack_sctp_timeout_established"

// withoutUnsupported takes out the steps whose protocol this kernel can't
// translate and notes why they failed.
func (b *Backend) withoutUnsupported(steps []step, failed map[vip.Frontend]error) []step {
	var supported []step
	for _, s := range steps {
		if s.after == nil || s.frontend.Protocol != discovery.SCTP || b.hasSCTP() {
			supported = append(supported, s)
			continue
		}
		failed[s.frontend] = fmt.Errorf("the kernel's connection tracking knows no SCTP (%s is missing)", sctpSetting)
		if s.before != nil {
			supported = append(supported, step{frontend: s.frontend, before: s.before})
		}
	}
	return supported
}

func (b *Backend) hasSCTP() bool {
	_, err := os.Stat(sctpSetting)
	return err == nil
}
