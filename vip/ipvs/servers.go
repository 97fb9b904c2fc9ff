package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// servers is the IPVS half of the dataplane: what the kernel holds of ours, and
// the way from there to what is wanted. Nothing is read back to write: a change
// costs what it changes (I-16).
type servers struct {
	kernel  kernel
	held    map[serverKey]*holding
	leaving map[leaver]time.Time // until when they may drain; zero: for ever
	drain   time.Duration        // 0: for ever
}

// holding is an IPVS server as the kernel has it.
type holding struct {
	spec    serverSpec
	weights map[netip.AddrPort]int
}

// leaver is an endpoint that takes no new connections and keeps those that it has.
type leaver struct {
	key serverKey
	to  netip.AddrPort
}

func newServers(k kernel, drain time.Duration) *servers {
	return &servers{kernel: k, held: map[serverKey]*holding{}, leaving: map[leaver]time.Time{}, drain: drain}
}

// weight of every endpoint that takes connections.
const weight = 1

// ensure makes the server exist with all its endpoints; others that it has stay.
func (s *servers) ensure(ctx context.Context, want server) error {
	have := s.held[want.key]
	if have == nil {
		added, err := s.add(ctx, want)
		if err != nil {
			return err
		}
		have, s.held[want.key] = added, added
	}
	if have.spec != want.spec {
		if err := s.kernel.setServer(ctx, want.key, want.spec); err != nil {
			return refuseServer(want.key, want.spec, err)
		}
		have.spec = want.spec
	}
	for _, to := range want.endpoints {
		if err := s.serve(ctx, want.key, have, to); err != nil {
			return refuse(fmt.Sprintf("adding endpoint %s to IPVS server %s", to, want.key), err)
		}
	}
	return nil
}

// add makes a server, or takes over the one that is there: the kernel has room
// for one only.
func (s *servers) add(ctx context.Context, want server) (*holding, error) {
	err := s.kernel.addServer(ctx, want.key, want.spec)
	switch {
	case err == nil:
		return &holding{spec: want.spec, weights: map[netip.AddrPort]int{}}, nil
	case !errors.Is(err, unix.EEXIST):
		return nil, refuseServer(want.key, want.spec, err)
	}
	return s.read(ctx, listed{key: want.key}) // with no spec, so that it will be written
}

// read learns the destinations of a server that is there.
func (s *servers) read(ctx context.Context, l listed) (*holding, error) {
	found, err := s.kernel.destinations(ctx, l.key)
	if err != nil {
		return nil, err
	}
	h := &holding{spec: l.spec, weights: make(map[netip.AddrPort]int, len(found))}
	for _, d := range found {
		h.weights[d.to] = d.weight
	}
	return h, nil
}

// serve lets an endpoint take connections. One that was leaving and comes back
// has its weight restored in place, so that its connections live on (B11).
func (s *servers) serve(ctx context.Context, key serverKey, have *holding, to netip.AddrPort) error {
	now, exists := have.weights[to]
	if exists && now == weight {
		return nil
	}
	var err error
	if !exists {
		err = s.kernel.addDestination(ctx, key, to, weight)
	}
	if exists || errors.Is(err, unix.EEXIST) {
		err = s.kernel.setDestination(ctx, key, to, weight)
	}
	if exists && errors.Is(err, unix.ENOENT) { // somebody removed it meanwhile
		err = s.kernel.addDestination(ctx, key, to, weight)
	}
	if err != nil {
		return err //nolint:wrapcheck // ensure does
	}
	have.weights[to] = weight
	delete(s.leaving, leaver{key, to})
	return nil
}

// prune lets the endpoints go that are not wanted any more: those with
// connections when these have ended (I-07), the others at once.
func (s *servers) prune(ctx context.Context, want server) error {
	have := s.held[want.key]
	if have == nil {
		return nil
	}
	wanted := make(map[netip.AddrPort]bool, len(want.endpoints))
	for _, to := range want.endpoints {
		wanted[to] = true
	}
	leaving := 0
	for to := range have.weights {
		if wanted[to] {
			continue
		}
		if !want.graceful {
			if err := s.discard(ctx, leaver{want.key, to}); err != nil {
				return err
			}
			continue
		}
		leaving++
		if err := s.retire(ctx, leaver{want.key, to}); err != nil {
			return err
		}
	}
	if leaving == 0 {
		return nil
	}
	return s.reapServer(ctx, want.key, time.Now())
}

// retire gives an endpoint no more connections.
func (s *servers) retire(ctx context.Context, l leaver) error {
	have := s.held[l.key]
	if have.weights[l.to] != 0 {
		err := s.kernel.setDestination(ctx, l.key, l.to, 0)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("retiring endpoint %s of IPVS server %s: %w", l.to, l.key, err)
		}
		have.weights[l.to] = 0
	}
	if _, known := s.leaving[l]; !known {
		s.leaving[l] = time.Time{}
		if s.drain > 0 {
			s.leaving[l] = time.Now().Add(s.drain)
		}
	}
	return nil
}

// discard removes an endpoint with its connections.
func (s *servers) discard(ctx context.Context, l leaver) error {
	err := s.kernel.deleteDestination(ctx, l.key, l.to)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("removing endpoint %s of IPVS server %s: %w", l.to, l.key, err)
	}
	delete(s.held[l.key].weights, l.to)
	delete(s.leaving, l)
	return nil
}

// reap removes the leaving endpoints that have no connections any more, or had
// time enough.
func (s *servers) reap(ctx context.Context, now time.Time) error {
	keys := map[serverKey]bool{}
	for l := range s.leaving {
		keys[l.key] = true
	}
	for key := range keys {
		if err := s.reapServer(ctx, key, now); err != nil {
			return err
		}
	}
	return nil
}

func (s *servers) reapServer(ctx context.Context, key serverKey, now time.Time) error {
	present, err := s.kernel.destinations(ctx, key)
	if err != nil {
		return err
	}
	for _, d := range present {
		l := leaver{key, d.to}
		until, leaving := s.leaving[l]
		over := !until.IsZero() && now.After(until)
		if leaving && (d.connections == 0 || over) {
			if err := s.discard(ctx, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes a server with its endpoints and their connections.
func (s *servers) remove(ctx context.Context, key serverKey) error {
	have := s.held[key]
	if have == nil {
		return nil
	}
	err := s.kernel.deleteServer(ctx, key)
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing IPVS server %s: %w", key, err)
	}
	for to := range have.weights {
		delete(s.leaving, leaver{key, to})
	}
	delete(s.held, key)
	return nil
}

// String returns the frontend, or "mark 0x12800".
func (k serverKey) String() string {
	if k.mark != 0 {
		return fmt.Sprintf("mark %#x", k.mark)
	}
	return k.frontend.String()
}
