package ipvs

import (
	"context"
	"maps"
	"slices"
	"time"
)

// A table too large for a glance is looked at in two other ways. A summary of
// all IPv4 servers costs one system call: it tells which are missing, which are
// set otherwise and which have endpoints too many or too few, at every glance.
// The endpoints themselves are read server by server, round and round, a little
// at a time: what tells an exchanged endpoint, another weight, and anything of
// IPv6 (other settings of which the controller's periodic look tells).

const (
	// rollFor is how long that goes on at a time, and rollEvery the pause between:
	// it costs a tenth of a core. Where it takes longer to read rollLeast servers,
	// it goes on for up to rollLong: so long an Apply may have to wait.
	rollFor   = 10 * time.Millisecond
	rollEvery = 90 * time.Millisecond
	rollLeast = 512
	rollLong  = 50 * time.Millisecond
	// rollAtOnce is how many servers are read between two looks at the clock.
	rollAtOnce = 32
)

// roll reads the endpoints of the next servers, and reports whether they are
// those that are held.
func (v *view) roll(ctx context.Context, s *servers) (glance, bool) {
	if len(v.left) == 0 {
		v.left = slices.AppendSeq(v.left, maps.Keys(s.held))
	}
	g, began, started := glance{}, time.Now(), len(v.left)
	for len(v.left) > 0 {
		took, read := time.Since(began), started-len(v.left)
		if took >= rollLong || took >= rollFor && read >= rollLeast {
			break
		}
		n := len(v.left) - min(rollAtOnce, len(v.left))
		for _, key := range v.left[n:] {
			if !s.inspect(ctx, key, g) {
				return g, false
			}
		}
		v.left = v.left[:n]
	}
	return g, true
}

// inspect enters what a server has now, and reports whether that is what is held.
func (s *servers) inspect(ctx context.Context, key serverKey, g glance) bool {
	h := s.held[key]
	if h == nil {
		return true // is not wanted any more
	}
	found, err := s.kernel.destinations(ctx, key)
	if err != nil {
		return true // the periodic look will tell
	}
	// Whether its settings are right is not for this look to say.
	g[key.shown()] = &glanced{scheduler: h.spec.scheduler, persistent: h.spec.affinity > 0, destinations: found}
	return g.shows(key, h)
}

// summarized reports whether the summary of the IPv4 servers is what is held.
func (s *servers) summarized() bool {
	summaries, can, err := s.kernel.summaries(len(s.held) + 16)
	if !can || err != nil {
		return true // the periodic look will tell
	}
	found := 0
	for now := range summaries {
		h := s.held[now.key]
		if h == nil {
			continue // somebody else's
		}
		if now.spec != h.spec || now.endpoints != len(h.weights) {
			return false
		}
		found++
	}
	for key := range s.held {
		if !key.frontend.Is6() {
			found--
		}
	}
	return found == 0
}
