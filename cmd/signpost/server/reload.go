package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"signpost/cmd/signpost/corefile"
	"signpost/discovery"
)

// syncLimit is how long a reload waits for a new source, and for the first
// rules of a new dataplane.
const syncLimit = 10 * time.Second

// reload replaces the configuration. On an error the old one goes on. A nil
// configuration had problems that were logged already.
func (s *Server) reload(ctx context.Context, config *corefile.Config) {
	if config == nil {
		return
	}
	if err := s.replace(ctx, config); err != nil {
		if s.current.Load().plane == nil {
			s.premises.leave()
		}
		s.operations.reloadFailed.Inc()
		s.log.Error("reloading failed: going on with the old configuration", "err", err)
		return
	}
	s.operations.inForce(config)
	s.log.Info("reloaded", "dns", fmt.Sprint(s.dns.Addrs()))
}

// replace builds the new generation, opens what it needs, lets a new source
// deliver everything, and only then swaps: first the dataplane, because a name
// must not be answered before its rules are in, then DNS.
func (s *Server) replace(ctx context.Context, config *corefile.Config) error {
	before := s.current.Load()
	next, err := s.build(ctx, config, before)
	if err != nil {
		return err
	}
	if next.adminAddress != before.adminAddress {
		return errors.Join(fmt.Errorf("admin %s: can't change while the server runs: restart it", next.adminAddress), next.discard(before))
	}
	if err := s.probePorts(ctx, before, next); err != nil {
		return errors.Join(err, next.discard(before))
	}
	endpoints, err := s.httpd.prepare(ctx, s.routes(next))
	if err != nil {
		return errors.Join(err, next.discard(before))
	}
	if err := s.startSource(ctx, before, next); err != nil {
		endpoints.undo()
		return errors.Join(err, next.discard(before))
	}
	s.swapPlane(ctx, before, next)
	err = s.swapDNS(ctx, before, next)
	s.current.Store(next)
	endpoints.apply()
	if next.source != before.source {
		before.source.stop()
	}
	return err
}

// swapDNS gives DNS the new blocks. Their ports were tried before: should they
// be taken in that moment, the old blocks go on.
func (s *Server) swapDNS(ctx context.Context, before, next *generation) error {
	ctx, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	next.zones.start()
	err := s.dns.Reload(ctx, s.dnsConfig(next))
	if err != nil && ctx.Err() == nil {
		next.zones.stop()
		next.zones = before.zones
		return taken(err)
	}
	before.zones.stop()
	return nil // a drain that took too long was cut short: the new blocks are in force
}

// startSource runs a new source beside the old one until it has delivered
// everything.
func (s *Server) startSource(ctx context.Context, before, next *generation) error {
	if next.source == before.source {
		return nil
	}
	next.source.start(s.failed)
	if next.source.inner == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	if _, err := next.source.store.Wait(limited, func(v *discovery.Snapshot) bool { return v.Synced }); err != nil {
		next.source.stop()
		return fmt.Errorf("waiting for the new source: %w", err)
	}
	return nil
}

// swapPlane ends the old dataplane's loop and starts the new one, which takes
// over what is in the kernel. Of another mode, what the old one made stays until
// the new one's rules are in, so that no connection is lost; see [plane.tidy].
func (s *Server) swapPlane(ctx context.Context, before, next *generation) {
	if next.plane == before.plane {
		return
	}
	if before.plane != nil {
		before.plane.stop()
		if next.plane == nil || next.plane.backend != before.plane.backend {
			s.fleet.supersede(ctx, before.plane.backend, next.mode())
		}
	}
	if next.plane == nil {
		s.fleet.remove(ctx)
		s.premises.leave()
		return
	}
	s.fleet.activate(next.plane.backend)
	next.plane.start()
	limited, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	if _, err := next.visible().Wait(limited, func(v *discovery.Snapshot) bool { return v.Synced }); err != nil {
		s.log.Warn("the new dataplane is not in place yet", "err", err)
	}
}

// probePorts tries the DNS ports that the old configuration doesn't have, so
// that one which is taken is found before anything has changed.
func (s *Server) probePorts(ctx context.Context, before, next *generation) error {
	old := before.zones.listening()
	for _, addr := range slices.Sorted(maps.Keys(next.zones.listening())) {
		if old[addr] {
			continue
		}
		if err := tryListen(ctx, addr); err != nil {
			return taken(err)
		}
	}
	return nil
}
