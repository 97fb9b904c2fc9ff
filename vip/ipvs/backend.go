package ipvs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// Config is how the backend is set up; the zero value is a usable one.
type Config struct {
	Log *slog.Logger
	// Scheduler is the one of virtual servers that ask for none: rr, wrr, lc,
	// wlc, lblc, lblcr, sh, dh, sed, nq or mh (I-14). Empty: rr.
	Scheduler string
	// SchedulerFlags are "sh-fallback", "sh-port", "mh-fallback" and "mh-port".
	// Nil: mh-port, as with kube-proxy.
	SchedulerFlags []string
	// Drain is how long an endpoint that left keeps its connections at most;
	// 0: an hour; negative: until they end (I-07).
	Drain time.Duration
	// StrictARP has this node not answer for addresses of other interfaces.
	StrictARP bool
}

// defaultDrain is long, because leaving endpoints cost nothing: the kernel
// sends a client that connects anew, even from the same port, elsewhere (B03).
const defaultDrain = time.Hour

// Backend programs IPVS. Its methods are for one goroutine, but for Watch. Make
// one with [New].
type Backend struct {
	config Config
	log    *slog.Logger
	flags  map[string]uint32

	// Seams for tests: they connect to the kernel, and change its settings.
	open     func() (*planes, error)
	settings func()

	settingsFailed bool // and it was told
	passageFailed  bool // and it was told

	mu     sync.Mutex // held by Apply and by each of Watch's checks
	planes *planes    // nil: not connected, and what the kernel holds is not known
	node   *vip.Node
	ledger map[vip.Frontend]*compiled // by concrete frontend
	failed map[vip.Frontend]bool      // concrete frontends that could not be programmed

	compiler compiler
	rules    rules
}

// planes are the three parts of the kernel that a virtual server needs.
type planes struct {
	servers   *servers
	addresses addresses
	table     table
	passage   passage
	filtered  uint32 // the ruleset's generation when the passage was last looked at
}

var (
	_ vip.Backend = (*Backend)(nil)
	_ vip.Watcher = (*Backend)(nil)
)

// New returns a backend for the network namespace that the calling thread is
// in at the first Apply. It touches nothing.
func New(config Config) *Backend {
	b := &Backend{}
	b.configure(config)
	b.open = b.connect
	b.settings = b.adjust
	return b
}

func (b *Backend) configure(config Config) {
	config.Scheduler = cmp.Or(config.Scheduler, "rr")
	config.Drain = cmp.Or(config.Drain, defaultDrain)
	b.config, b.log, b.flags = config, config.Log, schedulerFlags(config.SchedulerFlags)
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
}

// Configure replaces the configuration. The next Apply that is told nothing of
// what the kernel holds makes it true for what is there already.
func (b *Backend) Configure(config Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.configure(config)
	b.ledger = nil // what was compiled says the old scheduler
	if b.planes != nil {
		b.planes.servers.drain = max(0, b.config.Drain)
	}
}

// schedulerFlags returns the flags by scheduler. Names that don't exist are
// told by [Backend.Probe].
func schedulerFlags(names []string) map[string]uint32 {
	if names == nil {
		names = []string{"mh-port"}
	}
	flags := map[string]uint32{}
	for _, name := range names {
		switch name {
		case "sh-fallback", "mh-fallback":
			flags[name[:2]] |= flagSched1
		case "sh-port", "mh-port":
			flags[name[:2]] |= flagSched2
		}
	}
	return flags
}

// Name implements [vip.Backend].
func (b *Backend) Name() string { return "ipvs" }

// Apply implements [vip.Backend].
func (b *Backend) Apply(ctx context.Context, have, want *vip.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.apply(ctx, have, want)
	var partial *vip.PartialError
	if err != nil && !errors.As(err, &partial) {
		b.forget()
	}
	return err
}

func (b *Backend) apply(ctx context.Context, have, want *vip.State) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	known := b.planes != nil
	if !known {
		planes, err := b.open()
		if err != nil {
			return err
		}
		b.planes = planes
		b.rules.connect(planes.table)
	}
	if known && have != nil && b.node.Equal(want.Node()) {
		if list, ok := b.changed(have, want); ok {
			return b.run(ctx, list)
		}
	}
	return b.adopt(ctx, want)
}

// Cleanup implements [vip.Backend]: it removes what is ours by the marks that
// it bears in the kernel, whichever process made it.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.forget()
	planes, err := b.openForCleanup()
	if err != nil {
		return err
	}
	b.planes = planes
	b.rules.connect(planes.table)
	return errors.Join(b.removeServers(ctx), planes.table.Remove(ctx), planes.addresses.routes.remove(), planes.passage.remove())
}

// Close gives back the sockets; what is in the kernel stays.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget()
	return nil
}

// connect opens the sockets in the calling thread's network namespace.
func (b *Backend) connect() (*planes, error) {
	kernel, err := openKernel()
	if err != nil {
		return nil, err
	}
	return b.connectTo(kernel)
}

func (b *Backend) connectTo(k kernel) (*planes, error) {
	routes, err := openRoutes()
	if err != nil {
		k.close()
		return nil, err
	}
	conn, err := ruleset.Open(tableName, allSets)
	if err != nil {
		k.close()
		routes.close()
		return nil, err
	}
	host, err := openHostFilter()
	if err != nil {
		k.close()
		routes.close()
		return nil, errors.Join(err, conn.Close())
	}
	return &planes{
		servers: newServers(k, max(0, b.config.Drain)), addresses: addresses{routes: routes}, table: conn, passage: host,
	}, nil
}

// openForCleanup connects also to a kernel without IPVS: then there are no
// servers to remove, but there may be the rest.
func (b *Backend) openForCleanup() (*planes, error) {
	if b.planes != nil {
		return b.planes, nil
	}
	planes, err := b.open()
	if err == nil {
		return planes, nil
	}
	return b.connectTo(noKernel{})
}

// forget drops the sockets, which may hold answers to requests that were given
// up, and what is known of the kernel.
func (b *Backend) forget() {
	if b.planes == nil {
		return
	}
	b.planes.servers.kernel.close()
	b.planes.addresses.routes.close()
	b.planes.passage.close()
	if err := b.planes.table.Close(); err != nil {
		b.log.Debug("closing after an error", "err", err)
	}
	b.planes, b.ledger, b.rules.conn, b.rules.held = nil, nil, nil, nil
}

// noKernel is a kernel without IPVS.
type noKernel struct{ kernel }

func (noKernel) servers(context.Context) ([]listed, error)                      { return nil, nil }
func (noKernel) destinations(context.Context, serverKey) ([]destination, error) { return nil, nil }
func (noKernel) deleteServer(context.Context, serverKey) error                  { return unix.ESRCH }
func (noKernel) close()                                                         {}

// partial turns failures of concrete frontends into those of the state's.
func partial(failed map[vip.Frontend]error) error {
	if len(failed) == 0 {
		return nil
	}
	return &vip.PartialError{Failed: failed}
}
