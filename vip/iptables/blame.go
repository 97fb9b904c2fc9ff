package iptables

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"signpost/vip"
)

// writer makes known tables equal the ledger, and takes out what the kernel
// refuses: a rule that it refuses costs its own virtual server and no other
// (T-08, P-25).
type writer struct {
	plane  *plane
	before func(vip.Frontend) *vip.VirtualServer // what a frontend had until now
	wanted map[vip.Frontend]*vip.VirtualServer
	failed map[vip.Frontend]error
}

// everything writes all that differs, in one go if the kernel lets it.
func (w *writer) everything(ctx context.Context, jumps [len(tables)][]string) error {
	for {
		c := w.plane.ledger.plan(w.plane.ledger.groups(), true)
		c.jumps = jumps
		err := w.plane.carryOut(ctx, c)
		jumps = c.jumps
		var refused *refusedError
		if !errors.As(err, &refused) {
			return err
		}
		culprits := refused.culprits()
		if len(culprits) == 0 {
			if err := w.search(ctx, differing(c), culprits); err != nil {
				return err
			}
		}
		if len(culprits) == 0 { // not because of any virtual server
			return fmt.Errorf("writing the rules: %w", errors.New(refused.Error()))
		}
		for f, reason := range culprits {
			w.giveUp(f, reason)
		}
	}
}

// giveUp gives a frontend back what it had, or, if that is refused too, nothing.
func (w *writer) giveUp(f vip.Frontend, reason error) {
	to := w.before(f)
	if _, again := w.failed[f]; again || to == w.wanted[f] {
		to = nil
	}
	w.failed[f] = reason
	w.plane.ledger.move(f, to, map[group]bool{})
}

// differing lists the virtual servers of the groups that have something to write.
func differing(c *change) []*vip.VirtualServer {
	var list []*vip.VirtualServer
	for _, g := range c.groups {
		for _, t := range tables {
			if slices.ContainsFunc(c.made[t][g], func(name string) bool { return c.digests[t][name] != digest{} }) {
				list = append(list, c.ledger.servers(g)...)
				break
			}
		}
	}
	return list
}

// tryChain takes rules that nothing leads to.
const tryChain = prefix + "TRY"

// search finds culprits where the error names none: the legacy commands only
// learn that the kernel refuses the table as a whole. It halves, and tries each
// half in a chain that nothing leads to: no packet meets it.
func (w *writer) search(ctx context.Context, servers []*vip.VirtualServer, culprits map[vip.Frontend]error) error {
	if len(servers) == 0 {
		return nil
	}
	err := w.try(ctx, servers)
	var refused *refusedError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		return err
	case len(servers) == 1:
		culprits[servers[0].Frontend] = refused.about(0)
		return nil
	}
	half := len(servers) / 2
	if err := w.search(ctx, servers[:half], culprits); err != nil {
		return err
	}
	return w.search(ctx, servers[half:], culprits)
}

func (w *writer) try(ctx context.Context, servers []*vip.VirtualServer) error {
	for _, t := range tables {
		trial := chain{name: tryChain}
		for _, v := range servers {
			trial.rules = append(trial.rules, w.plane.ledger.alone(t, v)...)
		}
		if len(trial.rules) == 0 {
			continue
		}
		if err := w.plane.commit(ctx, rewrite(t, []chain{trial}, nil)); err != nil {
			return err
		}
		if err := w.plane.commit(ctx, removal(t, []string{tryChain}, nil)); err != nil {
			return err
		}
	}
	return nil
}
