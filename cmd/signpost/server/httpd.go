package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// route is one path on one address.
type route struct {
	addr, path string
	handler    http.Handler
}

// httpd serves routes on as many addresses as they name. Set changes the
// routes: an address that stays keeps its listener.
type httpd struct {
	log     *slog.Logger
	servers map[string]*httpServer // by configured address
	running sync.WaitGroup
}

type httpServer struct {
	listener net.Listener
	server   *http.Server
	handler  atomic.Pointer[http.ServeMux]
}

// The limits of a request: those who ask are probes and scrapers.
const (
	headerTimeout = 5 * time.Second
	drainTimeout  = 2 * time.Second
)

func newHTTPD(log *slog.Logger) *httpd {
	return &httpd{log: log, servers: map[string]*httpServer{}}
}

// prepare opens the listeners that the routes need and that are not open yet.
// The result puts the routes in force, or undoes the opening.
func (h *httpd) prepare(ctx context.Context, routes []route) (*httpChange, error) {
	change := &httpChange{httpd: h, muxes: map[string]*http.ServeMux{}, opened: map[string]net.Listener{}}
	for _, r := range routes {
		if change.muxes[r.addr] == nil {
			change.muxes[r.addr] = http.NewServeMux()
		}
		change.muxes[r.addr].Handle("GET "+r.path, r.handler)
	}
	for addr := range change.muxes {
		if h.servers[addr] != nil {
			continue
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", addr)
		if err != nil {
			change.undo()
			return nil, fmt.Errorf("opening %s: %w", describe(addr, routes), occupied(err))
		}
		change.opened[addr] = listener
	}
	return change, nil
}

// occupied adds who may have a port that is taken (L-08).
func occupied(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another program has the port, perhaps a kube-proxy or another signpost: end it, or choose another address", err)
	}
	return err
}

// describe names an address by what it is for.
func describe(addr string, routes []route) string {
	at := slices.IndexFunc(routes, func(r route) bool { return r.addr == addr })
	return fmt.Sprintf("the endpoint %s%s", addr, routes[at].path)
}

// httpChange is a set of routes that is ready to be served.
type httpChange struct {
	httpd  *httpd
	muxes  map[string]*http.ServeMux
	opened map[string]net.Listener
}

func (c *httpChange) undo() {
	for _, l := range c.opened {
		_ = l.Close() // nothing was served on it
	}
}

func (c *httpChange) apply() {
	for addr, mux := range c.muxes {
		if listener := c.opened[addr]; listener != nil {
			c.httpd.serve(addr, listener)
		}
		c.httpd.servers[addr].handler.Store(mux)
	}
	for addr := range c.httpd.servers {
		if c.muxes[addr] == nil {
			c.httpd.stop(addr)
		}
	}
}

func (h *httpd) serve(addr string, listener net.Listener) {
	s := &httpServer{listener: listener}
	s.handler.Store(http.NewServeMux())
	s.server = &http.Server{
		ReadHeaderTimeout: headerTimeout,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handler.Load().ServeHTTP(w, r) }),
	}
	h.servers[addr] = s
	h.running.Go(func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			h.log.Error("endpoint failed", "addr", addr, "err", err)
		}
	})
}

func (h *httpd) stop(addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := h.servers[addr].server.Shutdown(ctx); err != nil {
		_ = h.servers[addr].server.Close() // whoever still asks has had their time
	}
	delete(h.servers, addr)
}

// close ends all of them and waits.
func (h *httpd) close() {
	for addr := range h.servers {
		h.stop(addr)
	}
	h.running.Wait()
}
