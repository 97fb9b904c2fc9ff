package nftables

import (
	"context"
	"fmt"
	"os"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"

	"signpost/discovery"
	"signpost/vip"
)

// feature is something that the kernel may lack, with the chain that needs it.
type feature struct {
	name string
	try  func(k *kernel) error
}

// Probe implements [vip.Backend]: it has the kernel try a table with each kind
// of set and rule that the backend uses, and throw it away in the same
// transaction. Nothing of it is ever seen.
func (b *Backend) Probe(ctx context.Context) error {
	k, err := openKernel()
	if err != nil {
		return fmt.Errorf("probing nftables: %w", err)
	}
	defer func() { _ = k.close() }()
	k.table = &nft.Table{Name: tableName + "-probe", Family: nft.TableFamilyINet}
	for _, f := range features() {
		if err := k.probe(ctx, f); err != nil {
			return fmt.Errorf("probing nftables: %s: %s", f.name, reason(err))
		}
	}
	return nil
}

func (k *kernel) probe(ctx context.Context, f feature) error {
	if err := k.bound(ctx); err != nil {
		return err
	}
	k.conn.AddTable(k.table)
	if err := f.try(k); err != nil {
		return err
	}
	k.conn.DelTable(k.table)
	return k.flush()
}

// features goes from the general to the particular, so that the first one
// refused is the one that is missing.
func features() []feature {
	rules := func(name string, exprs ...expr.Any) feature {
		return feature{name, func(k *kernel) error {
			k.writeChains([]chain{{preroutingChain, []rule{{name, exprs}}}})
			return nil
		}}
	}
	return []feature{
		{"tables of family inet", func(*kernel) error { return nil }},
		rules("chains of type nat"),
		rules("random numbers (nft_numgen)", randomIndex(firstRegister, 2)),
		rules("address types (nft_fib_inet)", ifFromThisNode()...),
		rules("refusals before routing (nft_reject_inet, kernel 5.9)", unreachable()),
		{"masquerading (nft_masq)", func(k *kernel) error {
			k.writeChains([]chain{{postroutingChain, []rule{{"masquerade", one(masquerade())}}}})
			return nil
		}},
		{"its sets and chains", func(k *kernel) error {
			if err := k.create(); err != nil {
				return err
			}
			k.writeChains(skeleton(&vip.Node{}))
			return nil
		}},
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
