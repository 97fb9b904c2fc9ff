package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"signpost/discovery"
)

// The limits of a request: those who ask are probes.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = time.Minute
)

// port is one health-check node port: one HTTP server on one or more addresses.
type port struct {
	of     *Server
	number uint16
	answer atomic.Pointer[answer]
	server *http.Server
	// listeners by host. One that ended by itself takes itself out through ended.
	listeners map[string]*listener
	failing   map[string]bool // hosts where it could not be opened, logged already
}

type listener struct {
	net.Listener
	ended atomic.Bool
}

// answer is what a port says.
type answer struct {
	service discovery.Key
	local   int // ready endpoints on this node
}

func newPort(s *Server, number uint16) *port {
	p := &port{of: s, number: number, listeners: map[string]*listener{}, failing: map[string]bool{}}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	return p
}

// listen opens the port on the hosts where it isn't open, and returns on how
// many it could not be.
func (p *port) listen(ctx context.Context, hosts []string) (failed int) {
	for _, host := range hosts {
		if l := p.listeners[host]; l != nil && !l.ended.Load() {
			continue
		}
		delete(p.listeners, host)
		opened, err := p.of.config.Listen(ctx, address(host, p.number))
		if err != nil {
			failed++
			p.report(host, err)
			continue
		}
		p.recovered(host)
		l := &listener{Listener: opened}
		p.listeners[host] = l
		p.of.running.Go(func() { p.serve(host, l) })
	}
	return failed
}

// report logs that the port can't be opened, once.
func (p *port) report(host string, err error) {
	if p.failing[host] {
		return
	}
	p.failing[host] = true
	p.of.log.Warn("health-check node port can't be opened; trying again", "event", "FailedToStartServiceHealthcheck",
		"service", p.answer.Load().service.String(), "address", address(host, p.number), "error", err)
}

func (p *port) recovered(host string) {
	if !p.failing[host] {
		return
	}
	delete(p.failing, host)
	p.of.log.Info("health-check node port is open", "service", p.answer.Load().service.String(), "address", address(host, p.number))
}

func (p *port) serve(host string, l *listener) {
	err := p.server.Serve(l)
	if l.ended.Swap(true) || errors.Is(err, http.ErrServerClosed) {
		return // we closed it
	}
	p.of.log.Warn("health-check node port ended; opening it again", "address", address(host, p.number), "error", err)
	select {
	case p.of.broken <- struct{}{}:
	default: // Run is told already
	}
}

// closeOthers closes the listeners on other hosts.
func (p *port) closeOthers(hosts []string) {
	for host, l := range p.listeners {
		if !slices.Contains(hosts, host) {
			l.ended.Store(true)
			_ = l.Close() // whatever it says, it is closed
			delete(p.listeners, host)
		}
	}
	for host := range p.failing {
		if !slices.Contains(hosts, host) {
			delete(p.failing, host)
		}
	}
}

func (p *port) close() {
	for _, l := range p.listeners {
		l.ended.Store(true)
		_ = l.Close()
	}
	_ = p.server.Close()
}

// body is kube-proxy's.
type body struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

// ServeHTTP answers on every path, to every method.
func (p *port) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a, healthy := p.answer.Load(), p.of.config.Healthy()
	b := body{LocalEndpoints: a.local, ServiceProxyHealthy: healthy}
	b.Service.Namespace, b.Service.Name = a.service.Namespace, a.service.Name
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(a.local))
	if a.local == 0 || !healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(b) // the prober went away
}
