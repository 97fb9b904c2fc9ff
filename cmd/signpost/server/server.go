package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signpost/cmd/signpost/corefile"
	"signpost/dnsserver"
)

// Options are what does not stand in the Corefile.
type Options struct {
	Log     *slog.Logger
	Version string // for metrics
}

// Server is a running signpost. Start makes one, Run keeps it until its end.
type Server struct {
	options    Options
	log        *slog.Logger
	registry   *prometheus.Registry
	metrics    *metrics
	operations *operations
	dns        *dnsserver.Server
	httpd      *httpd
	admin      *adminServer
	fleet      fleet
	premises   premises
	failed     chan error // a part that can't go on

	// current is what is in force. Run replaces it; everyone may read it.
	current atomic.Pointer[generation]
	ending  atomic.Bool // the signal to end has come

	background sync.WaitGroup // of announceReady
}

// Start opens everything that the configuration names and starts to answer.
// Names of the cluster are answered once the source has delivered everything.
// On an error nothing is left open.
func Start(ctx context.Context, config *corefile.Config, o Options) (*Server, error) {
	s := &Server{options: o, registry: prometheus.NewRegistry(), failed: make(chan error, 1)}
	s.log = slog.New(eventLog{o.Log.Handler(), &s.current})
	s.metrics = newMetrics(s.registry, s, o.Version)
	s.operations = newOperations(s.registry)
	s.httpd = newHTTPD(s.log)
	s.fleet.log, s.premises.log = s.log.With("part", "vip"), s.log.With("part", "vip")
	next, err := s.build(ctx, config, nil)
	if err != nil {
		s.premises.leave()
		return nil, err
	}
	if err := s.open(ctx, next); err != nil {
		s.premises.leave()
		return nil, errors.Join(err, next.discard(nil))
	}
	s.current.Store(next)
	s.operations.inForce(config)
	next.start(s, nil)
	return s, nil
}

// open opens the sockets of the first generation.
func (s *Server) open(ctx context.Context, g *generation) error {
	dns, err := dnsserver.New(s.dnsConfig(g))
	if err != nil {
		return err
	}
	change, err := s.httpd.prepare(ctx, s.routes(g))
	if err != nil {
		return err
	}
	admin, err := s.openAdmin(ctx, g.adminAddress)
	if err != nil {
		change.undo()
		return err
	}
	if err := dns.Start(ctx); err != nil {
		change.undo()
		return errors.Join(taken(err), admin.close())
	}
	s.dns, s.admin = dns, admin
	change.apply()
	return nil
}

// Run serves until the context ends, and then ends cleanly: it says at once
// that it is not ready, answers for the lameduck time, and drains. A value on
// reload, or a change of what load returns, replaces the configuration.
func (s *Server) Run(ctx context.Context, reload <-chan os.Signal, load func() (*corefile.Config, error)) error {
	beside, stop := context.WithCancel(ctx)
	defer stop()
	s.background.Go(func() { s.announceReady(beside) })
	s.background.Go(func() { s.watchHealth(beside) })
	watch := &watcher{load: load, log: s.log, failed: s.operations.reloadFailed}
	for {
		select {
		case <-ctx.Done():
			return s.end(ctx)
		case err := <-s.failed:
			stop()
			return errors.Join(err, s.end(ctx))
		case signal := <-reload:
			s.log.Info("reading the Corefile again", "signal", signal.String())
			s.reload(ctx, watch.read())
		case <-watch.timer(s.current.Load().config.Reload):
			if config := watch.changed(s.current.Load().config); config != nil {
				s.log.Info("the Corefile has changed")
				s.reload(ctx, config)
			}
		}
	}
}

// announceReady logs one line when the server has nothing to wait for any more.
func (s *Server) announceReady(ctx context.Context) {
	const interval = 20 * time.Millisecond // readiness has no event of its own
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for len(s.Waiting()) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	s.log.Info("ready", "dns", fmt.Sprint(s.dns.Addrs()))
}

// Waiting lists what the server waits for before it is ready.
func (s *Server) Waiting() []string {
	if s.ending.Load() {
		return []string{"signpost: shutting down"}
	}
	return s.current.Load().waiting()
}

// drain is how long queries in flight may take at the end.
const drain = 5 * time.Second

// end takes everything down in the order that loses nothing.
func (s *Server) end(ctx context.Context) error {
	s.ending.Store(true)
	g := s.current.Load()
	if wait := g.config.Lameduck; wait > 0 && ctx.Err() != nil {
		s.log.Info("shutting down", "lameduck", wait)
		time.Sleep(wait)
	}
	drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := s.dns.Shutdown(drained)
	s.background.Wait()
	err = errors.Join(err, g.stop(), s.fleet.close())
	s.premises.leave()
	s.httpd.close()
	err = errors.Join(err, s.admin.close())
	s.log.Info("ended")
	return err
}

// watcher reads the Corefile again and tells whether it differs.
type watcher struct {
	load      func() (*corefile.Config, error)
	log       *slog.Logger
	failed    prometheus.Counter
	lastError string
}

// timer fires when the Corefile is to be looked at; never, if it isn't.
func (w *watcher) timer(r corefile.Reload) <-chan time.Time {
	if r.Interval == 0 {
		return nil
	}
	return time.After(r.Interval + rand.N(r.Jitter+1))
}

// read returns the configuration, nil if it has problems, which it logs.
func (w *watcher) read() *corefile.Config {
	config, err := w.load()
	if err != nil {
		w.failed.Inc()
		w.log.Error("reloading failed: going on with the old configuration", "err", err)
		return nil
	}
	return config
}

// changed returns the configuration if it means something else than the
// present one. The same problem is logged once.
func (w *watcher) changed(present *corefile.Config) *corefile.Config {
	config, err := w.load()
	if err != nil {
		if text := err.Error(); text != w.lastError {
			w.lastError = text
			w.failed.Inc()
			w.log.Error("reloading failed: going on with the old configuration", "err", err)
		}
		return nil
	}
	w.lastError = ""
	if config.Digest == present.Digest {
		return nil
	}
	return config
}
