package userspace

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"signpost/vip"
)

// Config holds the limits and the seams of a [Backend]. The zero value is
// useful: every field has a default.
type Config struct {
	Log *slog.Logger // default: discard

	// MaxConnections bounds the TCP connections that are open at once, over all
	// frontends; the next one is reset. A connection takes two files and two
	// goroutines, and four files more once it moves bulk data. Default: an
	// eighth of the process's file limit, at least 16 and at most 16,384.
	MaxConnections int
	// MaxSessions bounds the UDP sessions, over all frontends; a new client then
	// takes the place of one of its frontend's longest idle ones. A session
	// takes one file and one goroutine. Default: as MaxConnections.
	MaxSessions int
	// MaxClients bounds the clients that one frontend with affinity remembers;
	// the least recently seen is forgotten. Default: 16,384.
	MaxClients int

	// UDPIdle is how long a UDP session lives without a datagram in either
	// direction. Default: 30 s, the kernel's for a flow that conntrack tracks.
	UDPIdle time.Duration
	// DialTimeouts are the times that one client's connection may wait for an
	// endpoint: the first silent endpoint has the first of them, and so on; after
	// the last, the client is reset. Default: 250 ms, 500 ms, 1 s, 2 s.
	DialTimeouts []time.Duration

	// Dial connects to an endpoint, by "tcp" or "udp". Default: a [net.Dialer]'s
	// way. It has to return a *net.TCPConn or a *net.UDPConn.
	Dial func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error)
}

// Backend proxies in this process; see the package comment. Make one with [New].
type Backend struct {
	cfg      Config
	log      *slog.Logger
	ctx      context.Context // ends in Close
	cancel   context.CancelFunc
	running  sync.WaitGroup // every goroutine of the backend
	node     atomic.Pointer[node]
	addrs    *addresses
	conns    *connections
	sessions *slots

	mu      sync.Mutex // Apply, Cleanup and Close
	closed  bool
	looked  bool       // at the kernel, at least once
	want    *vip.State // of this Apply, or the last
	servers map[vip.Frontend]*server
	unsure  map[vip.Frontend]error // what the last round could not make true
}

// New returns a backend that listens nowhere yet. It has to be closed.
func New(cfg Config) *Backend {
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	b := &Backend{
		cfg: cfg, log: cfg.Log, ctx: ctx, cancel: cancel,
		conns:    newConnections(newSlots("TCP connections", cfg.MaxConnections, cfg.Log)),
		sessions: newSlots("UDP sessions", cfg.MaxSessions, cfg.Log),
		servers:  make(map[vip.Frontend]*server),
	}
	b.addrs = newAddresses(&netlinkRoutes{source: func(v6 bool) netip.Addr { return b.node.Load().primary(v6) }})
	b.node.Store(newNode(nil))
	b.want = vip.NewState(&vip.Node{})
	return b
}

// Name is part of [vip.Backend].
func (b *Backend) Name() string { return "userspace" }

// Probe is part of [vip.Backend]. Every machine can run this backend: what it
// can't do for one frontend is that frontend's failure.
func (b *Backend) Probe(context.Context) error { return nil }

// Cleanup is part of [vip.Backend]: it closes every listener and session of
// this process and removes the routes that any process made.
func (b *Backend) Cleanup(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopServers()
	return b.addrs.removeAll()
}

// Close ends every listener, session and connection and waits for their
// goroutines. The routes stay, so that the addresses refuse until the next
// process takes them over; Cleanup removes them.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.addrs.freeze()
	b.cancel()
	b.stopServers()
	b.conns.closeAll()
	b.running.Wait()
	b.addrs.close()
	return nil
}

func (b *Backend) stopServers() {
	for f, s := range b.servers {
		s.stop()
		delete(b.servers, f)
	}
}

var errClosed = errors.New("applying to a closed backend")

// Stats are figures of the moment.
type Stats struct {
	Servers     int // frontends
	Connections int // TCP
	Sessions    int // UDP
}

// Stats returns how much the backend does now.
func (b *Backend) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Servers: len(b.servers), Connections: used(&b.conns.slots.used), Sessions: used(&b.sessions.used)}
}

func used(n *atomic.Int64) int { return int(n.Load()) }
