package vip

import "time"

// quarantine keeps frontends that failed out of the next applies, each until
// its own delay is over, so that one that can never work costs the others
// nothing (P-25). A frontend whose virtual server changes comes out at once:
// what was wrong with it may be right now.
type quarantine struct {
	backoff backoff
	held    map[Frontend]*detainee
}

type detainee struct {
	server   *VirtualServer
	err      error
	failures int
	until    time.Time
}

// withheld returns the frontends of a state that must not be tried yet.
func (q *quarantine) withheld(desired *State, now time.Time) map[Frontend]error {
	kept := map[Frontend]error{}
	for f, d := range q.held {
		if desired.Get(f) == d.server && now.Before(d.until) {
			kept[f] = d.err
		}
	}
	return kept
}

// tried records what became of the frontends that were in an apply, and
// forgets those that nobody wants any more.
func (q *quarantine) tried(desired *State, withheld, failed map[Frontend]error, now time.Time) {
	for f, d := range q.held {
		_, waits := withheld[f]
		_, again := failed[f]
		if desired.Get(f) == nil || !waits && !again || desired.Get(f) != d.server {
			delete(q.held, f)
		}
	}
	for f, err := range failed {
		server := desired.Get(f)
		if server == nil {
			continue // a removal: the next look finds what is left
		}
		d := q.held[f]
		if d == nil {
			d = &detainee{server: server}
			q.held[f] = d
		}
		d.failures++
		d.err, d.until = err, now.Add(q.backoff.after(d.failures))
	}
}

// failed returns every frontend that is held, and why.
func (q *quarantine) failed() map[Frontend]error {
	all := make(map[Frontend]error, len(q.held))
	for f, d := range q.held {
		all[f] = d.err
	}
	return all
}

// next returns when the first one is due; zero: there is none.
func (q *quarantine) next() time.Time {
	var first time.Time
	for _, d := range q.held {
		if first.IsZero() || d.until.Before(first) {
			first = d.until
		}
	}
	return first
}
