package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signpost/cmd/signpost/corefile"
)

// operations are the figures of running the server, with CoreDNS's names.
type operations struct {
	reloadFailed  prometheus.Counter
	reloadVersion *prometheus.GaugeVec
	healthTook    prometheus.Histogram
	healthFailed  prometheus.Counter
}

func newOperations(registry *prometheus.Registry) *operations {
	o := &operations{
		reloadFailed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coredns_reload_failed_total", Help: "Reloads that failed: the old configuration went on.",
		}),
		reloadVersion: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coredns_reload_version_info", Help: "The digest of what the configuration in force says.",
		}, []string{"hash", "value"}),
		healthTook: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "coredns_health_request_duration_seconds", Help: "How long the server's own request to /health took.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 10, 5),
		}),
		healthFailed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coredns_health_request_failures_total", Help: "The server's own requests to /health that failed.",
		}),
	}
	registry.MustRegister(o.reloadFailed, o.reloadVersion, o.healthTook, o.healthFailed)
	return o
}

// inForce shows which configuration is.
func (o *operations) inForce(config *corefile.Config) {
	o.reloadVersion.Reset()
	o.reloadVersion.WithLabelValues("sha512", config.Digest).Set(1)
}

// The pace of the server's own requests to /health: a process that has too
// much to do shows it there first.
const (
	healthPause   = time.Second
	healthTimeout = 3 * time.Second
)

// watchHealth asks for /health until the context ends.
func (s *Server) watchHealth(ctx context.Context) {
	client := &http.Client{Timeout: healthTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(healthPause)
	defer ticker.Stop()
	fine := true // as far as the log knows
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, addr := range s.current.Load().config.Health {
			problem := s.operations.askHealth(ctx, client, addr)
			if (problem == nil) != fine {
				fine = !fine
				s.log.Warn("asking for the own health", "fine", fine, "problem", problem)
			}
		}
	}
}

// askHealth asks one address and returns what is wrong, or that it took long.
func (o *operations) askHealth(ctx context.Context, client *http.Client, addr string) error {
	start := time.Now()
	err := getHealth(ctx, client, addr)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the server ends
	}
	took := time.Since(start)
	o.healthTook.Observe(took.Seconds())
	if err != nil {
		o.healthFailed.Inc()
		return err
	}
	if took > healthPause {
		return fmt.Errorf("asking %s: took %s", addr, took)
	}
	return nil
}

func getHealth(ctx context.Context, client *http.Client, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("asking %s: %w", addr, err)
	}
	if port == "0" { // any free port: nobody can ask there
		return nil
	}
	if host == "" {
		host = "localhost"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/health", nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", addr, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", addr, err)
	}
	return response.Body.Close() //nolint:wrapcheck // nothing is read
}

// fail ends the server: a part can't go on.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default: // another part has failed already
	}
}
