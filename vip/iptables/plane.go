package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"signpost/vip"
)

// plane is one address family: its commands, and what they wrote (P-19).
type plane struct {
	family *family
	tool   *tool
	broken error   // why there are no commands for it; nil: there are
	ledger *ledger // nil: what the tables hold is not known
	stuck  map[vip.Frontend]error
	writes uint32 // commits made since the last reset; see stamp.go
	shown  dialect
	// lacks says which kinds of virtual servers the kernel can't have here.
	lacks lacks
}

// step is one frontend's way to what is wanted; nil: nothing.
type step struct {
	frontend vip.Frontend
	to       *vip.VirtualServer
}

// errDisturbed says that the kernel refused what should have been possible:
// the tables may not be what the ledger says.
var errDisturbed = errors.New("the tables are not as they were left")

// increment carries out steps on tables that are known.
func (p *plane) increment(ctx context.Context, steps []step, health []uint16) error {
	touched, undo := map[group]bool{}, []step(nil)
	p.ledger.health = health
	for _, s := range steps {
		undo = append(undo, step{s.frontend, p.ledger.get(s.frontend)})
		p.ledger.move(s.frontend, s.to, touched)
	}
	c := p.ledger.plan(sorted(touched), false)
	err := p.carryOut(ctx, c)
	if _, refused := refusal(err); refused {
		for _, s := range slices.Backward(undo) {
			p.ledger.move(s.frontend, s.to, touched)
		}
		return errors.Join(errDisturbed, err)
	}
	return err
}

// order is in which order the tables are written: filter before nat, so that no
// packet is neither translated nor refused (T-03). Where nat has nothing of ours
// yet it comes first: another mode may answer the addresses so far, and is to
// do so until packets are translated; filter would refuse what is not.
func (p *plane) order() []table {
	if _, ours := p.ledger.chains[natTable][servicesChain]; !ours {
		return []table{natTable, filterTable}
	}
	return []table{filterTable, natTable}
}

// carryOut writes a change table by table, then it deletes what is stale.
func (p *plane) carryOut(ctx context.Context, c *change) error {
	for _, t := range p.order() {
		if len(c.writes[t])+len(c.jumps[t]) > 0 {
			if err := p.commit(ctx, rewrite(t, c.writes[t], c.jumps[t])); err != nil {
				return err
			}
		}
		c.jumps[t] = nil
		c.done(t)
	}
	return p.sweep(ctx, c)
}

// sweep deletes stale chains.
func (p *plane) sweep(ctx context.Context, c *change) error {
	for _, t := range tables {
		if err := p.remove(ctx, t, c.stale[t]); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes chains. One that somebody else's rule leads to can't be
// deleted (k/k#70615 "Too many links"): it stays, empty, until the next look.
func (p *plane) remove(ctx context.Context, t table, names []string) error {
	if len(names) == 0 {
		return nil
	}
	err := p.commit(ctx, removal(t, names, nil))
	_, refused := refusal(err)
	switch {
	case err == nil:
		for _, name := range names {
			delete(p.ledger.chains[t], name)
		}
		return nil
	case !refused:
		return err
	}
	if err := p.empty(ctx, t, names); err != nil || len(names) == 1 {
		return err
	}
	half := len(names) / 2
	if err := p.remove(ctx, t, names[:half]); err != nil {
		return err
	}
	return p.remove(ctx, t, names[half:])
}

// empty takes all rules out of chains: they may lead to each other.
func (p *plane) empty(ctx context.Context, t table, names []string) error {
	chains := make([]chain, len(names))
	for i, name := range names {
		chains[i].name = name
		p.ledger.chains[t][name] = chains[i].digest()
	}
	return p.commit(ctx, rewrite(t, chains, nil))
}

// commit writes one payload.
func (p *plane) commit(ctx context.Context, text *payload) error {
	err := p.tool.write(ctx, text.end())
	if err == nil {
		p.writes++
		return nil
	}
	if e, refused := refusal(err); refused {
		return &refusedError{e, text}
	}
	return err
}

// refusedError is a payload that the kernel or the command said no to.
type refusedError struct {
	*toolError
	payload *payload
}

// Unwrap returns the command's error.
func (e *refusedError) Unwrap() error { return e.toolError }

// culprits returns the frontends whose lines the error names, with the reasons.
func (e *refusedError) culprits() map[vip.Frontend]error {
	blamed := map[vip.Frontend]error{}
	for _, line := range e.lines() {
		if f := e.payload.owner(line); f.Addr.IsValid() {
			blamed[f] = e.about(line)
		}
	}
	return blamed
}

// adopt makes the tables equal the wanted servers without knowing what they
// hold: it looks, keeps what is right and writes the difference. Previous is
// what a frontend goes back to if the kernel refuses it.
func (p *plane) adopt(ctx context.Context, l *ledger, steps []step, previous func(vip.Frontend) *vip.VirtualServer, failed map[vip.Frontend]error) error {
	var jumps [len(tables)][]string
	for _, t := range tables {
		f, err := p.tool.look(ctx, t)
		if err != nil {
			return err
		}
		l.chains[t], jumps[t] = p.shown.translated(f.chains), f.repairs(jumpsOf(t))
	}
	p.ledger = l
	touched := map[group]bool{}
	for _, step := range steps {
		l.move(step.frontend, step.to, touched)
	}
	w := &writer{plane: p, before: previous, wanted: wantedOf(steps), failed: map[vip.Frontend]error{}}
	before, writes := l.clone(), p.writes
	if err := w.everything(ctx, jumps); err != nil {
		return err
	}
	maps.Copy(failed, w.failed)
	if p.writes == writes {
		return nil
	}
	return p.learn(ctx, before)
}

func wantedOf(steps []step) map[vip.Frontend]*vip.VirtualServer {
	wanted := make(map[vip.Frontend]*vip.VirtualServer, len(steps))
	for _, s := range steps {
		wanted[s.frontend] = s.to
	}
	return wanted
}

// described adds the family to an error.
func (p *plane) described(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("programming iptables for %s: %w", p.family.name(), err)
}
