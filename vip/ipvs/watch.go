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
	// glanceEvery is how often IPVS is glanced at: nothing tells when it changes,
	// and drift is to be healed within two seconds (X02).
	glanceEvery = 500 * time.Millisecond
	// glanceStart is how much of the table is read then; a server with ten
	// endpoints takes 700 bytes.
	glanceStart = 128 << 10
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
	glances := time.NewTicker(glanceEvery)
	defer glances.Stop()
	rest := time.NewTimer(glanceEvery)
	defer rest.Stop()
	view := &view{table: table}
	for {
		what, pause := glanceAt, rollEvery
		select {
		case <-ctx.Done():
			return
		case <-glances.C:
		case <-removed:
			what = addressesToo
		case <-rest.C:
			what = rollOn
		}
		if !b.intact(ctx, view, what) {
			drift()
			pause = glanceEvery // for the healing
		}
		if what == rollOn {
			rest.Reset(pause)
		}
	}
}

// look says what to look at.
type look int

const (
	glanceAt     look = iota // the table's beginning, and a summary of the rest
	addressesToo             // also bound ones, and the routing of captured packets
	rollOn                   // the next part of a large table
)

// view is how far the table of servers was looked at.
type view struct {
	table io.ReadSeeker
	whole bool        // a glance sees all of it
	left  []serverKey // what the present round has not seen yet
}

// intact reports whether the kernel still holds what was written.
func (b *Backend) intact(ctx context.Context, v *view, what look) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.planes == nil || b.ledger == nil {
		return true // the next Apply looks in any case
	}
	s := b.planes.servers
	if what == rollOn {
		if v.whole {
			return true
		}
		g, intact := v.roll(ctx, s)
		return intact && b.tidy(ctx, g)
	}
	if what == addressesToo && !b.planes.addresses.intact() || !b.passes(ctx) {
		return false
	}
	g, err := v.glance()
	if err != nil {
		return true // the periodic look will tell
	}
	return s.shown(g, v.whole) && (v.whole || s.summarized()) && b.tidy(ctx, g)
}

// shown reports whether what a glance showed is what is held; all of it, if it
// showed the whole.
func (s *servers) shown(g glance, whole bool) bool {
	for key, h := range s.held {
		if (whole || g.find(key) != nil) && !g.shows(key, h) {
			return false
		}
	}
	return true
}

// tidy removes endpoints that have left, if a glance shows that it is time.
func (b *Backend) tidy(ctx context.Context, g glance) bool {
	s, now := b.planes.servers, time.Now()
	if !s.due(g, now) {
		return true
	}
	if err := s.reap(ctx, now); err != nil {
		b.log.Debug("removing endpoints that have left", "err", err)
		return false
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

// glance reads the beginning of the table, which may be all of it.
func (v *view) glance() (glance, error) {
	if _, err := v.table.Seek(0, io.SeekStart); err != nil {
		return nil, err //nolint:wrapcheck // no caller tells it
	}
	g, whole, err := readStart(v.table)
	v.whole = whole
	return g, err
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
