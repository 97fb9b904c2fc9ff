package nftables

import (
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"signpost/vip/internal/ruleset"
)

// one is a part of a rule with these expressions.
func one(e ...expr.Any) []expr.Any { return e }

// randomIndex loads a random number below n, in host byte order.
func randomIndex(reg uint32, n int) expr.Any {
	return &expr.Numgen{Register: reg, Modulus: uint32(n), Type: unix.NFT_NG_RANDOM}
}

// remember adds a key to a dynamic set for a time, or renews the one that is
// there. When the set is full it leaves the rule.
func remember(set *ruleset.Set, key uint32, timeout time.Duration) expr.Any {
	return &expr.Dynset{SrcRegKey: key, SetName: set.Name, Operation: uint32(unix.NFT_DYNSET_OP_UPDATE), Timeout: timeout}
}
