package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"signpost/cmd/signpost/admin"
)

// routes are the HTTP endpoints of a generation.
func (s *Server) routes(g *generation) []route {
	var list []route
	add := func(addr, path string, h http.Handler) { list = append(list, route{addr, path, h}) }
	for _, addr := range g.config.Health {
		add(addr, "/health", http.HandlerFunc(healthHandler))
	}
	for _, addr := range g.config.Ready {
		add(addr, "/ready", readyHandler(s.Waiting))
	}
	for _, addr := range g.config.Metrics {
		add(addr, "/metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	}
	if g.plane != nil {
		k := s.metrics.kubeproxy
		add(g.config.VIP.Healthz, "/healthz", healthzHandler(g.plane, true, k.healthz))
		add(g.config.VIP.Healthz, "/livez", healthzHandler(g.plane, false, k.livez))
		for _, addr := range g.config.Metrics { // kube-proxy's are beside its metrics
			add(addr, "/proxyMode", proxyModeHandler(g.plane.backend.Name()))
			add(addr, "/configz", configzHandler(g.plane))
		}
	}
	return list
}

// adminServer is the admin socket; nil: there is none.
type adminServer struct {
	address string
	server  *http.Server
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// openAdmin opens the admin socket and serves on it.
func (s *Server) openAdmin(ctx context.Context, address string) (*adminServer, error) {
	if address == "" {
		s.log.Info("no admin socket: neither root nor XDG_RUNTIME_DIR, and no admin directive")
		return nil, nil //nolint:nilnil // no address is no error
	}
	listener, err := admin.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	// A watch lasts as long as its client or this context.
	base, cancel := context.WithCancel(context.Background())
	a := &adminServer{address: address, cancel: cancel, server: &http.Server{
		Handler: admin.Handler(s.view), ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return base },
	}}
	a.running.Go(func() {
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("admin socket failed", "err", err)
		}
	})
	return a, nil
}

func (a *adminServer) close() error {
	if a == nil {
		return nil
	}
	a.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	err := a.server.Shutdown(ctx)
	a.running.Wait()
	if err != nil {
		return fmt.Errorf("closing the admin socket: %w", err)
	}
	return nil
}

// view is what the admin API shows at this moment.
func (s *Server) view() *admin.View {
	g := s.current.Load()
	v := &admin.View{Desired: g.source.store.Current(), Records: s.records}
	v.Status = admin.Status{Revision: v.Desired.Revision, Synced: v.Desired.Synced, Mode: "off", Waiting: s.Waiting()}
	if g.plane == nil {
		v.Wait = func(ctx context.Context) { wait(ctx, g.source.store.Changed(v.Desired.Revision), nil) }
		return v
	}
	status := g.plane.controller.Status()
	v.Plan, v.Applied, v.Status.Mode = status.Desired, status.Applied, g.plane.backend.Name()
	v.Diff = g.plane.differ(status.Desired)
	v.Wait = func(ctx context.Context) {
		wait(ctx, g.source.store.Changed(v.Desired.Revision), g.plane.controller.Changed(status))
	}
	return v
}

func wait(ctx context.Context, a, b <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-a:
	case <-b:
	}
}
