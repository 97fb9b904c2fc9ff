package ipvs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip/internal/ruleset"
)

const (
	// glanceEvery is how often the IPVS table is read: nothing tells when it
	// changes, and drift is to be healed within two seconds (X02).
	glanceEvery = 800 * time.Millisecond
	// glanceStart is how much of the table is read each time; a server with ten
	// endpoints takes 700 bytes. Whoever empties the table is seen at once.
	glanceStart = 128 << 10
	// glanceShare bounds the part of its time that the rest of a large table may
	// cost: all of it is read so many times later than the last time took.
	glanceShare = 20
)

// Watch implements [vip.Watcher]. It is told of changes to the table of rules
// and of addresses, devices and routing rules that go; it glances at IPVS
// itself. It also removes leaving endpoints when their last connection ends.
// What it looks at belongs to the network namespace of the calling thread.
func (b *Backend) Watch(ctx context.Context, drift func()) error {
	table, err := os.Open(tableFile)
	if err != nil {
		return fmt.Errorf("watching IPVS: %w", err)
	}
	defer func() { _ = table.Close() }()
	routes, err := subscribeRoutes()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	failures := make(chan error, 1)
	removed := make(chan struct{}, 1)
	helpers.Go(func() {
		if err := followRoutes(ctx, routes, removed); err != nil {
			failures <- err
			cancel()
		}
	})
	helpers.Go(func() { b.follow(ctx, table, removed, drift) })
	err = ruleset.Watch(ctx, tableName, b.rules.port.Load, drift)
	cancel()
	helpers.Wait()
	close(failures)
	return errors.Join(err, <-failures, routes.Close())
}

func subscribeRoutes() (*netlink.Conn, error) {
	groups := uint32(1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1) |
		1<<(unix.RTNLGRP_IPV4_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1) |
		1<<(unix.RTNLGRP_IPV4_RULE-1) | 1<<(unix.RTNLGRP_IPV6_RULE-1))
	socket, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: groups})
	if err != nil {
		return nil, fmt.Errorf("watching addresses: %w", err)
	}
	return socket, nil
}

// followRoutes tells whenever something was removed.
func followRoutes(ctx context.Context, socket *netlink.Conn, removed chan<- struct{}) error {
	stop := context.AfterFunc(ctx, func() { _ = socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		messages, err := socket.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, unix.ENOBUFS): // then something was missed
			return fmt.Errorf("watching addresses: %w", err)
		}
		if err != nil || anyRemoval(messages) {
			select {
			case removed <- struct{}{}:
			default: // is known already
			}
		}
	}
}

func anyRemoval(messages []netlink.Message) bool {
	for _, m := range messages {
		switch m.Header.Type {
		case unix.RTM_DELADDR, unix.RTM_DELLINK, unix.RTM_DELROUTE, unix.RTM_DELRULE:
			return true
		}
	}
	return false
}

// follow checks what the kernel holds from time to time, and after removals.
func (b *Backend) follow(ctx context.Context, table io.ReadSeeker, removed <-chan struct{}, drift func()) {
	nextWhole := time.Now()
	for {
		timer := time.NewTimer(glanceEvery)
		addresses := false
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-removed:
			timer.Stop()
			addresses = true
		}
		began := time.Now()
		look := look{addresses: addresses, whole: began.After(nextWhole)}
		if !b.intact(ctx, table, look) {
			drift()
		}
		if look.whole {
			nextWhole = began.Add((glanceShare + 1) * time.Since(began))
		}
	}
}

// look says what to look at.
type look struct {
	addresses bool // bound ones, and the routing of captured packets
	whole     bool // the whole table of servers, also if it is large
}

// intact reports whether the kernel still holds what was written.
func (b *Backend) intact(ctx context.Context, table io.ReadSeeker, l look) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.planes == nil || b.ledger == nil {
		return true // the next Apply looks in any case
	}
	if l.addresses && !b.planes.addresses.intact() {
		return false
	}
	if !b.passes(ctx) {
		return false
	}
	g, whole, err := readTable(table, l.whole)
	if err != nil {
		return true // the periodic look will tell
	}
	s := b.planes.servers
	for key, h := range s.held {
		if (whole || g.find(key) != nil) && !g.shows(key, h) {
			return false
		}
	}
	if s.due(g, time.Now()) {
		if err := s.reap(ctx, time.Now()); err != nil {
			b.log.Debug("removing endpoints that have left", "err", err)
			return false
		}
	}
	return true
}

// passes reports whether the host's filter still lets packets to IPVS through;
// it looks only after somebody has changed the ruleset.
func (b *Backend) passes(ctx context.Context) bool {
	now, err := b.planes.table.Generation(ctx)
	if err != nil || now == b.planes.filtered {
		return true // the next look tells
	}
	b.planes.filtered = now
	return b.planes.passage.intact()
}

func readTable(table io.ReadSeeker, whole bool) (glance, bool, error) {
	if _, err := table.Seek(0, io.SeekStart); err != nil {
		return nil, false, err //nolint:wrapcheck // no caller tells it
	}
	if !whole {
		return readStart(table)
	}
	g, err := readGlance(table)
	return g, true, err
}

// due reports whether a leaving endpoint can be removed.
func (s *servers) due(g glance, now time.Time) bool {
	for l, until := range s.leaving {
		if !until.IsZero() && now.After(until) {
			return true
		}
		if shown := g.find(l.key); shown != nil && shown.idle(l) {
			return true
		}
	}
	return false
}

func (g *glanced) idle(l leaver) bool {
	for _, d := range g.destinations {
		if d.to == l.to {
			return d.connections == 0
		}
	}
	return false
}
