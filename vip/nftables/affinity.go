package nftables

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables/expr"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// Session affinity (P-16). A dynamic set remembers client . frontend . number
// of the endpoint, each for the timeout after its last new connection. A server
// with affinity has a chain of its own, with two rules an endpoint: who is
// remembered with it goes there; and who is not gets there by chance and is
// remembered. An endpoint that goes takes its two rules along, so nobody is
// sent there any more, at once; then it is forgotten who had it. Else, when it
// comes back, clients would return to it from where they are by then.

// stick returns the rules of a chain with affinity.
func (c class) stick(a action) []ruleset.Rule {
	endpoints := c.server.Endpoints(a.set)
	numbers := endpointNumbers(endpoints)
	affinity := setsOf[c.family].affinity
	var rejoin, join []ruleset.Rule
	for i, e := range endpoints {
		goThere := c.toEndpoint(e.AddrPort)
		again := one(remember(affinity, ruleset.First, a.affinity))
		rejoin = append(rejoin, ruleset.NewRule("the endpoint that the client had",
			c.only(), c.loadClient(numbers[i]), one(ruleset.InSet(affinity)), again, goThere))
		join = append(join, ruleset.NewRule("an endpoint to stay with",
			c.only(), oneIn(len(endpoints)-i), c.loadClient(numbers[i]), again, goThere))
	}
	return append(rejoin, join...)
}

// loadClient loads a key of the affinity set.
func (c class) loadClient(number uint32) []expr.Any {
	frontend := ruleset.First + c.family.AddrWords
	key := append(one(c.family.LoadSource(ruleset.First)), c.loadFrontend(frontend)...)
	return append(key, ruleset.Constant(frontend+c.frontendLen(), ruleset.AppendNumber(nil, number)))
}

// oneIn lets every n-th packet on, by chance.
func oneIn(n int) []expr.Any {
	if n == 1 {
		return nil
	}
	return one(randomIndex(ruleset.First, n), ruleset.Equals(ruleset.AppendNumber(nil, 0)))
}

// toEndpoint translates the connection to an endpoint that the rule itself names.
func (c class) toEndpoint(ap netip.AddrPort) []expr.Any {
	return one(
		ruleset.Constant(ruleset.First, ap.Addr().AsSlice()),
		ruleset.Constant(ruleset.First+c.family.AddrWords, binary.BigEndian.AppendUint16(nil, ap.Port())),
		c.family.Translate(ruleset.First))
}

// endpointNumbers gives each endpoint a number that stays the same while other
// endpoints come and go, but for the rare case that two would have the same one.
func endpointNumbers(endpoints []vip.Endpoint) []uint32 {
	taken := make(map[uint32]bool, len(endpoints))
	numbers := make([]uint32, len(endpoints))
	for i, e := range endpoints {
		sum := sha256.Sum256([]byte(e.AddrPort.String()))
		n := binary.BigEndian.Uint32(sum[:])
		for taken[n] {
			n++
		}
		numbers[i], taken[n] = n, true
	}
	return numbers
}

// stickyName names a server with affinity and its endpoints.
func stickyName(v *vip.VirtualServer) string {
	sum := sha256.New()
	for _, which := range []vip.Set{vip.ClusterSet, vip.LocalSet} {
		for _, e := range v.Endpoints(which) {
			fmt.Fprintln(sum, which, e.AddrPort)
		}
	}
	f := v.Frontend
	addr := strings.ReplaceAll(f.Addr.String(), ":", "_")
	return fmt.Sprintf("%s/%s/%d/%s", addr, strings.ToLower(f.Protocol.String()), f.Port, hex.EncodeToString(sum.Sum(nil)[:6]))
}

// forgetClients takes the clients of endpoints that have gone out of the sets.
// If that fails they are forgotten when their time is over.
func (b *Backend) forgetClients(ctx context.Context, steps []step) {
	gone := map[*ruleset.Set]map[string]bool{}
	for _, s := range steps {
		set, key := setsOf[ruleset.FamilyOf(s.frontend.Is6())].affinity, string(frontendKey(s.frontend))
		stay := s.after.sticky(nil)
		for number := range s.before.sticky(s.after) {
			if stay[number] {
				continue
			}
			if gone[set] == nil {
				gone[set] = map[string]bool{}
			}
			gone[set][key+string(ruleset.AppendNumber(nil, number))] = true
		}
	}
	for set, endpoints := range gone {
		if err := b.forgetFrom(ctx, set, endpoints); err != nil {
			b.log.Debug("forgetting clients of endpoints that have gone", "err", err)
		}
	}
}

// sticky are the numbers of an entry's endpoints, if clients are remembered with
// them. An entry that was found is taken to be as its follower in this.
func (e *entry) sticky(follower *entry) map[uint32]bool {
	numbers := map[uint32]bool{}
	like := e
	if e != nil && e.server == nil {
		like = follower
	}
	if like == nil || like.class.server == nil {
		return numbers
	}
	for _, list := range [][]netip.AddrPort{e.layout.cluster, e.layout.local} {
		endpoints := make([]vip.Endpoint, len(list))
		for i, ap := range list {
			endpoints[i].AddrPort = ap
		}
		for _, n := range endpointNumbers(endpoints) {
			numbers[n] = true
		}
	}
	return numbers
}

// forgetFrom deletes the elements of endpoints. One that expires meanwhile is
// refused, and the others with it: then it looks again.
func (b *Backend) forgetFrom(ctx context.Context, set *ruleset.Set, endpoints map[string]bool) error {
	var err error
	for range 3 {
		var all []ruleset.Element
		if all, err = b.kernel.Remembered(ctx, set); err != nil {
			continue
		}
		t := &ruleset.Transaction{}
		for _, e := range all {
			if n := set.Family.AddrLen(); len(e.Key) > n && endpoints[e.Key[n:]] {
				t.Del = append(t.Del, ruleset.Element{Set: set, Key: e.Key})
			}
		}
		if err = b.commit(ctx, t); err == nil || !refusal(err) {
			return err
		}
	}
	return err
}
