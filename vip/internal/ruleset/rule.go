package ruleset

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// Hook says where in a packet's way a base chain hangs.
type Hook struct {
	Type     nft.ChainType
	At       *nft.ChainHook
	Priority *nft.ChainPriority
}

// Chain is a chain and its rules, in order; a base chain if it has a hook.
type Chain struct {
	Name  string
	Hook  *Hook
	Rules []Rule
}

// Rule is one rule with the words that `nft list` shows beside it.
type Rule struct {
	Comment string
	Exprs   []expr.Any
}

// NewRule makes a rule out of parts.
func NewRule(comment string, parts ...[]expr.Any) Rule {
	return Rule{Comment: comment, Exprs: slices.Concat(parts...)}
}

// One is a part with these expressions.
func One(e ...expr.Any) []expr.Any { return e }

// Label is the rule's comment in the kernel: its words and a fingerprint of
// what it does, by which a later run recognises it.
func (r Rule) Label() string {
	sum := sha256.New()
	for _, e := range r.Exprs {
		data, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err != nil {
			continue // the kernel will be told of it, and say what is wrong
		}
		sum.Write(data)
	}
	return r.Comment + " #" + hex.EncodeToString(sum.Sum(nil)[:6])
}

func (r Rule) userData() []byte {
	return userdata.AppendString(nil, userdata.TypeComment, r.Label())
}

// Labels lists what the rules say of themselves, fingerprints included.
func (c Chain) Labels() []string {
	labels := make([]string, len(c.Rules))
	for i, r := range c.Rules {
		labels[i] = r.Label()
	}
	return labels
}

// handle describes a chain to the kernel.
func (c Chain) handle(t *nft.Table) *nft.Chain {
	out := &nft.Chain{Name: c.Name, Table: t}
	if c.Hook != nil {
		out.Type, out.Hooknum, out.Priority = c.Hook.Type, c.Hook.At, c.Hook.Priority
	}
	return out
}

// hangs reports whether a chain found in the kernel hangs where c does.
func (c Chain) hangs(found *nft.Chain) bool {
	if c.Hook == nil || found.Hooknum == nil {
		return c.Hook == nil && found.Hooknum == nil
	}
	return *c.Hook.At == *found.Hooknum && found.Priority != nil && *c.Hook.Priority == *found.Priority && c.Hook.Type == found.Type
}
