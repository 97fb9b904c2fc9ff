package viptest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"signpost/vip"
)

// DefaultFaultRate is how many of a hundred operations fail wherever a test
// does not say otherwise.
const DefaultFaultRate = 10

// SeedVariable is the environment variable that makes a test repeat the
// randomness of the run whose seed it holds.
const SeedVariable = "SIGNPOST_TEST_SEED"

// errFault is what a failed operation returns.
var errFault = errors.New("injected fault")

// Rand returns the test's source of randomness and logs its seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(SeedVariable); text != "" {
		parsed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("reading %s: %v", SeedVariable, err)
		}
		seed = parsed
	}
	t.Logf("%s=%d", SeedVariable, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Faults decides which operations fail. Its methods may be called from any
// goroutine.
type Faults struct {
	mu      sync.Mutex
	random  *rand.Rand
	percent int
}

// NewFaults lets percent of a hundred operations fail, by the test's seed.
func NewFaults(t testing.TB, percent int) *Faults {
	return &Faults{random: Rand(t), percent: percent}
}

// Stop lets everything succeed from now on.
func (f *Faults) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.percent = 0
}

// Operation is for [Fake.FailWith].
func (f *Faults) Operation(Operation) error {
	if f.hit() {
		return errFault
	}
	return nil
}

func (f *Faults) hit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(100) < f.percent
}

func (f *Faults) below(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

// Faulty wraps any backend and lets its applies go wrong in every way that the
// contract knows: an error before anything was done, one after it, a partial
// error, and a hang that ends with the context.
type Faulty struct {
	vip.Backend
	Faults *Faults
	Hangs  bool // hang as well; only for callers whose context has a deadline
}

var _ vip.Backend = (*Faulty)(nil)

// Apply implements [vip.Backend].
func (f *Faulty) Apply(ctx context.Context, have, want *vip.State) error {
	if !f.Faults.hit() {
		return f.Backend.Apply(ctx, have, want)
	}
	kinds := 3
	if f.Hangs {
		kinds = 4
	}
	switch f.Faults.below(kinds) {
	case 0:
		return errFault
	case 1:
		// The work is done, and nobody hears of it.
		return errors.Join(errFault, f.Backend.Apply(ctx, have, want))
	case 2:
		return f.partial(ctx, have, want)
	default:
		<-ctx.Done()
		return fmt.Errorf("applying: %w", ctx.Err())
	}
}

// partial applies all but some of the frontends.
func (f *Faulty) partial(ctx context.Context, have, want *vip.State) error {
	failed := map[vip.Frontend]error{}
	for v := range want.All() {
		if f.Faults.hit() {
			failed[v.Frontend] = errFault
		}
	}
	err := f.Backend.Apply(ctx, have, want.Without(failed))
	var partial *vip.PartialError
	switch {
	case errors.As(err, &partial):
		for frontend, reason := range partial.Failed {
			failed[frontend] = reason
		}
	case err != nil:
		return err
	}
	if len(failed) == 0 {
		return nil
	}
	return &vip.PartialError{Failed: failed}
}

// Converge does what the controller does, without its waiting: it applies a
// state until the backend has it, and returns what the dataplane then holds.
// It gives up after a thousand tries.
func Converge(ctx context.Context, backend vip.Backend, have, want *vip.State) (*vip.State, error) {
	var err error
	for range 1000 {
		err = backend.Apply(ctx, have, want)
		var partial *vip.PartialError
		switch {
		case err == nil:
			return want, nil
		case errors.As(err, &partial):
			have = vip.AfterPartial(want, partial)
		default:
			have = nil
		}
	}
	return nil, fmt.Errorf("converging: %w", err)
}
