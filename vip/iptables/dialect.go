package iptables

import (
	"context"
	"maps"
)

// dialect is how this machine's iptables-save shows chains, where that is not
// how they were written: other versions may have other ways. From what is shown
// it leads to what was written.
type dialect map[digest]digest

// translated returns found chains as they were written.
func (d dialect) translated(chains map[string]digest) map[string]digest {
	for name, shown := range chains {
		if written, known := d[shown]; known {
			chains[name] = written
		}
	}
	return chains
}

// snapshot is what the tables held before a write.
type snapshot [len(tables)]map[string]digest

func (l *ledger) clone() snapshot {
	var s snapshot
	for t := range tables {
		s[t] = maps.Clone(l.chains[t])
	}
	return s
}

// learn looks again if chains that were there had to be written anew. Those
// that look as they did before, though written, look so because that is how
// they are shown here; else each look would write them again.
func (p *plane) learn(ctx context.Context, before snapshot) error {
	if !p.rewrote(before) {
		return nil
	}
	shown := dialect{}
	for _, t := range tables {
		f, err := p.tool.look(ctx, t)
		if err != nil {
			return err
		}
		for name, seen := range f.chains {
			written := p.ledger.chains[t][name]
			was, known := p.shown[seen]
			again := known && was == written || seen == before[t][name]
			if seen != written && again && seen.rules == written.rules {
				shown[seen] = written
			}
		}
	}
	p.shown = shown
	return nil
}

// rewrote reports whether chains that were there have another text now.
func (p *plane) rewrote(before snapshot) bool {
	for _, t := range tables {
		for name, now := range p.ledger.chains[t] {
			if was, existed := before[t][name]; existed && was != now {
				return true
			}
		}
	}
	return false
}
