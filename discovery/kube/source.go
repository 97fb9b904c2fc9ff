package kube

import (
	"context"
	"log/slog"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"

	"signpost/discovery"
)

// Source keeps a store current with an API server. It implements
// [discovery.Source].
type Source struct {
	cfg    Config
	host   string
	client *client
	health *health
	world  atomic.Pointer[world] // of Run
}

var _ discovery.Source = (*Source)(nil)

// New checks the configuration and the files that it names. It does not
// connect: a server that is not there yet is no error.
func New(cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	settings, err := cfg.API.settings()
	if err != nil {
		return nil, err
	}
	c, err := newClient(settings, cfg.API, cfg.Metrics)
	if err != nil {
		return nil, err
	}
	health := newHealth(cfg.Log, settings.Host, cfg.Metrics)
	health.grace = cfg.grace
	return &Source{cfg: cfg, host: settings.Host, client: c, health: health}, nil
}

// Host returns the API server's URL or host:port.
func (s *Source) Host() string { return s.host }

// Failing returns the resources that can't be followed at present, sorted.
func (s *Source) Failing() []string { return s.health.list() }

// Missing returns the resources that were not delivered yet, sorted; none, once
// everything was.
func (s *Source) Missing() []string {
	w := s.world.Load()
	if w == nil {
		w = newWorld(&s.cfg, s.health) // nothing yet
	}
	return w.missing()
}

// Run implements [discovery.Source]: the first update brings everything and
// marks the store synced. It returns nil when the context ends; a server that
// can't be reached is waited for.
func (s *Source) Run(ctx context.Context, to discovery.Writer) error {
	w := newWorld(&s.cfg, s.health)
	s.world.Store(w)
	var running, watches sync.WaitGroup
	ctx, cancel := context.WithCancel(logr.NewContextWithSlogLogger(ctx, slog.New(slog.DiscardHandler))) // the library's own lines
	defer func() {
		cancel()
		running.Wait()
		watches.Wait()
		s.client.http.CloseIdleConnections()
	}()
	for _, t := range w.tables {
		reflector := s.reflector(t, &watches)
		running.Go(func() { reflector.RunWithContext(ctx) })
	}
	s.publish(ctx, w, to)
	return nil
}

// reflector keeps one table current. The library logs nothing: health does.
func (s *Source) reflector(t *table, watches *sync.WaitGroup) *cache.Reflector {
	name := t.resource.name
	f := &fetcher{client: s.client.groups[t.resource.group], table: t, health: s.health, lacking: s.cfg.lacking, running: watches}
	from := &cache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch}
	backoff, quiet := s.cfg.backoff, logr.Discard()
	return cache.NewReflectorWithOptions(from, &item{}, t, cache.ReflectorOptions{
		Logger: &quiet, Name: name, TypeDescription: name, Backoff: &backoff,
	})
}

// publish brings the store up to date whenever something has changed, and not
// before everything was delivered once. Changes that come together, such as a
// service's and its slices', become one revision.
func (s *Source) publish(ctx context.Context, w *world, to discovery.Writer) {
	started := time.Now()
	published := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		if !published && len(w.missing()) > 0 {
			continue
		}
		if !pause(ctx, together) {
			return
		}
		var fresh []*item
		snapshot := to.Update(func(tx *discovery.Tx) { fresh = w.apply(tx) })
		s.measure(fresh, snapshot, started)
		if !published {
			published = true
			s.announce(snapshot)
		}
		if !pause(ctx, window) {
			return
		}
	}
}

// announce says what there is, and warns of a dataplane that depends on itself.
func (s *Source) announce(v *discovery.Snapshot) {
	s.cfg.Log.Info("everything is here from the API server", "server", s.host,
		"services", v.Services.Len(), "namespaces", len(v.Namespaces), "nodes", len(v.Nodes), "pods", v.Pods.Len(), "service_ranges", v.ServiceCIDRs)
	if s.cfg.Nodes && viaService(s.host, v) {
		s.cfg.Log.Warn("the API server is reached through a Service's virtual address, which this dataplane is to make: "+
			"a node that starts without its rules can't begin: name the server itself (kubernetes: endpoint URL)", "server", s.host)
	}
}

// viaService reports whether the host is the cluster IP of a service (B10).
func viaService(host string, v *discovery.Snapshot) bool {
	u, err := url.Parse(host)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return false
	}
	for _, k := range v.ServicesAt(addr) {
		service, _ := v.Services.Get(k)
		for _, a := range service.ClusterIPs {
			if a == addr {
				return true
			}
		}
	}
	return false
}

// measure notes how long changes of endpoints took to get here. What happened
// before the start says nothing about this program (L-07).
func (s *Source) measure(fresh []*item, v *discovery.Snapshot, started time.Time) {
	for _, i := range fresh {
		service, ok := v.Services.Get(i.owner)
		trigger := i.value.(*discovery.Slice).Trigger
		if ok && service.Kind == discovery.Headless && len(service.Selector) > 0 && trigger.After(started) {
			s.cfg.Metrics.programmed(time.Since(trigger))
		}
	}
}

// pause waits, and reports whether the context still runs.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
