package vip

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Backend is a dataplane driver: it makes a desired [State] true.
//
// The contract of Apply(ctx, have, want), where have is what the caller knows
// the dataplane to hold:
//
//  1. have nil means unknown: look, adopt what is right, write the difference.
//  2. It is idempotent, and Apply(nil, want) and Apply(have, want) lead to the
//     same dataplane.
//  3. A nil error: the dataplane equals want.
//  4. A [*PartialError]: all frontends but those in Failed equal want. The next
//     call's have lacks the failed ones; what is left of them in the dataplane
//     must not be in the way of adding them again.
//  5. Any other error: the dataplane is unknown and the next call gets nil.
//  6. Adds come before deletes, SNAT and filter before reachability.
//  7. Objects that the backend does not recognise as its own stay untouched.
//  8. It is never called concurrently and returns soon after ctx ends.
type Backend interface {
	// Name returns the mode's name as the Corefile spells it: "nftables".
	Name() string
	// Probe returns nil if the backend can run on this machine, and else an
	// error that says in words what is missing.
	Probe(ctx context.Context) error
	Apply(ctx context.Context, have, want *State) error
	// Cleanup removes everything that this backend ever made, whichever
	// process made it. It is idempotent.
	Cleanup(ctx context.Context) error
}

// Watcher is a [Backend] that notices when another program changes its objects.
type Watcher interface {
	// Watch calls drift, possibly several times, whenever the dataplane may no
	// longer be what Apply left, until ctx ends.
	Watch(ctx context.Context, drift func()) error
}

// PartialError says which frontends could not be programmed, and why; all
// others are as wanted.
type PartialError struct {
	Failed map[Frontend]error
}

// Error lists the failed frontends in order.
func (e *PartialError) Error() string {
	lines := make([]string, 0, len(e.Failed))
	for _, f := range slices.SortedFunc(maps.Keys(e.Failed), Frontend.Compare) {
		lines = append(lines, fmt.Sprintf("%s: %v", f, e.Failed[f]))
	}
	return fmt.Sprintf("programming %d virtual servers: %s", len(lines), strings.Join(lines, "; "))
}

// Unwrap returns the reasons, so that errors.Is and errors.As reach them.
func (e *PartialError) Unwrap() []error { return slices.Collect(maps.Values(e.Failed)) }

// AfterPartial returns what a caller of [Backend].Apply knows the dataplane to
// hold after a partial error: all that it wanted but the frontends that failed.
// It is nil, unknown, if a frontend failed that was not wanted: its removal can
// only be tried again by looking.
func AfterPartial(want *State, failure *PartialError) *State {
	for f := range failure.Failed {
		if want.Get(f) == nil {
			return nil
		}
	}
	return want.Without(failure.Failed)
}
