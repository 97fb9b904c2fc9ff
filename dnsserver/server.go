package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Server serves the blocks of a [Config] over UDP and TCP.
//
// The order of its life is New, Start, any number of Reloads, Shutdown. Its
// methods may be called from any goroutine.
type Server struct {
	metrics *metrics
	// The slots have a token for each query in flight. TCP has its own, so that
	// clients which are slow to read their replies can't starve UDP.
	udpSlots, tcpSlots *slots
	// base is the parent of every query's context; it ends when a shutdown
	// has run out of patience.
	base    context.Context // the lifetime of the server's goroutines
	cancel  context.CancelFunc
	cookies *cookieJar
	tasks   *tasks // answers that are refreshed in the background

	mu        sync.Mutex // serialises Start, Reload and Shutdown
	state     lifecycle
	cfg       Config
	plan      plan
	life      *lifetime // of the plan
	listeners map[string]*listener
}

// lifecycle is where a server is in its life.
type lifecycle uint8

const (
	stateNew lifecycle = iota
	stateStarted
	stateStopped
)

// New validates the configuration and builds the handler chains. It opens no
// socket. The error joins everything that is wrong ([errors.Join]), each with
// its block.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	s := &Server{udpSlots: newSlots(cfg.MaxQueries), tcpSlots: newSlots(cfg.MaxQueries), listeners: map[string]*listener{}}
	s.metrics = newMetrics(s.inFlight)
	s.cookies = newCookieJar(time.Now)
	plan, life, err := s.build(cfg)
	if err != nil {
		return nil, err
	}
	s.metrics.setCacheStores(cacheStores(cfg, life))
	s.metrics.setEnabled(enabled(cfg))
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(s.metrics); err != nil {
			return nil, fmt.Errorf("registering dns metrics: %w", err)
		}
	}
	s.cfg, s.plan, s.life = cfg, plan, life
	s.tasks = newTasks()
	s.base, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// inFlight is the number of queries being answered.
func (s *Server) inFlight() float64 { return float64(s.udpSlots.used.Load() + s.tcpSlots.used.Load()) }

// Start opens the listening sockets and serves in the background until
// Shutdown. Either all addresses are served or none; ctx bounds the opening
// only.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateNew {
		return errors.New("starting dns server: already started")
	}
	opened, err := s.open(ctx, s.cfg, s.plan)
	if err != nil {
		return err
	}
	s.serveAll(opened)
	s.life.begin()
	s.state = stateStarted
	return nil
}

// Addrs returns the addresses served by plain DNS, with real port numbers,
// sorted. Each is served over UDP and TCP.
func (s *Server) Addrs() []netip.AddrPort { return s.TransportAddrs(PlainDNS) }

// TransportAddrs returns the addresses served over a transport, sorted.
func (s *Server) TransportAddrs(t Transport) []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := make([]netip.AddrPort, 0, len(s.listeners))
	for key, l := range s.listeners {
		if transport, _, _ := splitKey(key); transport == t {
			addrs = append(addrs, l.addr)
		}
	}
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	return addrs
}

// Reload swaps the configuration. Everything new is validated, built and
// opened before anything changes; on error the old configuration goes on.
// Sockets of addresses that stay are kept with what waits in them, queries in
// flight end under the old configuration, counters go on (L9). Addresses that
// are gone are drained; ctx bounds that, and its end is the only error that
// leaves the new configuration in force.
func (s *Server) Reload(ctx context.Context, cfg Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateStarted {
		return errors.New("reloading dns server: not running")
	}
	cfg = cfg.withDefaults()
	next, life, err := s.build(cfg)
	if err != nil {
		return err
	}
	opened, err := s.open(ctx, cfg, next)
	if err != nil {
		return fmt.Errorf("reloading dns server: %w", err)
	}
	s.udpSlots.resize(cfg.MaxQueries)
	s.tcpSlots.resize(cfg.MaxQueries)
	gone := s.swap(next)
	s.serveAll(opened)
	before := s.life
	s.cfg, s.plan, s.life = cfg, next, life
	life.begin()
	s.metrics.setCacheStores(cacheStores(cfg, life))
	s.metrics.setEnabled(enabled(cfg))
	err = stopAll(ctx, gone)
	before.end()
	return err
}

// swap gives kept listeners what they serve from now on, and takes those out
// that the plan doesn't name.
func (s *Server) swap(next plan) (gone []*listener) {
	for addr, l := range s.listeners {
		if serving, ok := next[addr]; ok {
			l.serving.Store(serving)
			continue
		}
		delete(s.listeners, addr)
		gone = append(gone, l)
	}
	return gone
}

// Shutdown ends the server: nothing new is accepted, what was accepted is
// answered, TCP connections are closed behind their last reply (L10). When ctx
// ends first, what is still in flight is cancelled and ctx's error returned.
// Every goroutine of the server has ended when it returns.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = stateStopped
	release := context.AfterFunc(ctx, s.cancel)
	defer release()
	err := stopAll(ctx, slices.Collect(maps.Values(s.listeners)))
	s.cancel()
	s.tasks.close()
	s.life.end()
	clear(s.listeners)
	return err
}

// stopAll stops listeners at the same time and waits for all of them.
func stopAll(ctx context.Context, listeners []*listener) error {
	errs := make([]error, len(listeners))
	var wg sync.WaitGroup
	for i, l := range listeners {
		wg.Go(func() { errs[i] = l.stop(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// serveAll starts the loops of newly opened listeners.
func (s *Server) serveAll(opened []*listener) {
	for _, l := range opened {
		s.listeners[l.key] = l
		l.start()
	}
}
