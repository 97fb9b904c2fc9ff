package userspace

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	share := fileShare()
	for _, limit := range []struct {
		value     *int
		otherwise int
	}{{&c.MaxConnections, share}, {&c.MaxSessions, share}, {&c.MaxClients, 16384}} {
		if *limit.value <= 0 {
			*limit.value = limit.otherwise
		}
	}
	if c.UDPIdle <= 0 {
		c.UDPIdle = 30 * time.Second
	}
	if len(c.DialTimeouts) == 0 {
		c.DialTimeouts = []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}
	}
	if c.Dial == nil {
		c.Dial = dial
	}
	return c
}

func dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, to.String()) //nolint:wrapcheck // the callers say what for
}

// fileShare is an eighth of the files that this process may open: a connection
// takes six at the worst, and the listeners need theirs.
func fileShare() int {
	const least, most = 16, 16384
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return least
	}
	return int(min(max(limit.Cur/8, least), most))
}

// slots is a counting limit that says once when it is reached, and once when
// there is room again.
type slots struct {
	what string
	max  int64
	log  *slog.Logger
	used atomic.Int64
	full atomic.Bool
}

func newSlots(what string, limit int, log *slog.Logger) *slots {
	return &slots{what: what, max: int64(limit), log: log}
}

// take reports whether there was a slot; whoever got one has to give it back.
func (s *slots) take() bool {
	if s.used.Add(1) <= s.max {
		return true
	}
	s.used.Add(-1)
	if s.full.CompareAndSwap(false, true) {
		s.log.Warn("limit reached", "of", s.what, "limit", s.max)
	}
	return false
}

func (s *slots) give() {
	left := s.used.Add(-1)
	if left <= s.max*9/10 && s.full.CompareAndSwap(true, false) {
		s.log.Info("below the limit again", "of", s.what, "limit", s.max)
	}
}

// connections are the open TCP connections, so that Close can end them.
type connections struct {
	slots *slots
	mu    sync.Mutex
	open  map[*net.TCPConn]struct{}
}

func newConnections(s *slots) *connections {
	return &connections{slots: s, open: make(map[*net.TCPConn]struct{})}
}

// add takes a connection in; false: the limit is reached.
func (c *connections) add(conn *net.TCPConn) bool {
	if !c.slots.take() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = struct{}{}
	return true
}

func (c *connections) remove(conn *net.TCPConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	c.slots.give()
}

func (c *connections) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		reset(conn)
	}
}
