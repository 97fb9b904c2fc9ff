package manifest

import "signpost/discovery"

// Loaded is a folder at one moment.
type Loaded struct {
	// Snapshot is what a store would hold.
	Snapshot *discovery.Snapshot
	// Problems is everything that is wrong, by file and line.
	Problems []Problem
}

// Load reads the folder once: what Run would serve, and every problem. It
// reads the state file but writes nothing, so addresses that are not in it yet
// may be others the next time. Readiness probes are not run. An error means
// that the folder or the state file could not be used at all.
func Load(cfg Config) (*Loaded, error) {
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	e := s.engine
	e.readOnly = true
	paths, _ := e.look()
	e.accept(e.read(paths))
	store := discovery.NewStore()
	if err := e.publish(store, true); err != nil {
		return nil, err
	}
	return &Loaded{Snapshot: store.Current(), Problems: e.ledger.problems()}, nil
}
