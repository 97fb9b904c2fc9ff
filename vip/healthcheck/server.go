package healthcheck

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"signpost/discovery"
	"signpost/vip"
)

// Config is what a [Server] needs. Status and Nodes are required.
type Config struct {
	// Status is the controller whose services are asked about.
	Status vip.StatusSource
	// Nodes knows the addresses of node ports, on which health checks answer.
	Nodes vip.NodeSource
	// Everywhere answers on all addresses instead: node ports do so too.
	Everywhere bool
	// Healthy tells whether the dataplane keeps up; nil: it always does.
	Healthy func() bool
	Log     *slog.Logger
	// Retry is the time until a port that could not be opened is tried again; 5 s.
	Retry time.Duration
	// Listen opens a TCP listener; nil: the system's way.
	Listen func(ctx context.Context, address string) (net.Listener, error)
}

// Server answers on the health-check node ports of all services.
type Server struct {
	config Config
	log    *slog.Logger
	broken chan struct{} // a listener ended by itself
	open   atomic.Int64
	failed atomic.Int64

	// All below belongs to Run.
	seen     *vip.State // the plan whose health checks are in claims
	claims   map[uint16]map[discovery.Key]bool
	ports    map[uint16]*port
	contests map[uint16]discovery.Key // winners of ports that several want; logged once
	running  sync.WaitGroup
}

// New returns a server that listens nowhere before Run.
func New(config Config) *Server {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Retry == 0 {
		config.Retry = 5 * time.Second
	}
	if config.Healthy == nil {
		config.Healthy = func() bool { return true }
	}
	if config.Listen == nil {
		config.Listen = func(ctx context.Context, address string) (net.Listener, error) {
			var c net.ListenConfig
			return c.Listen(ctx, "tcp", address)
		}
	}
	return &Server{
		config: config, log: config.Log, broken: make(chan struct{}, 1),
		claims: map[uint16]map[discovery.Key]bool{}, ports: map[uint16]*port{}, contests: map[uint16]discovery.Key{},
	}
}

// Ports returns how many ports are open, and how many listeners could not be
// opened. It may be called from any goroutine.
func (s *Server) Ports() (open, failed int) { return int(s.open.Load()), int(s.failed.Load()) }

// Run serves until the context ends, and closes all ports. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	defer s.running.Wait()
	defer s.closeAll()
	for {
		status, node := s.config.Status.Status(), s.config.Nodes.Current()
		if status.Desired != nil && node != nil {
			s.sync(ctx, status, node)
		}
		var retry <-chan time.Time
		if s.failed.Load() > 0 {
			retry = time.After(s.config.Retry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.config.Status.Changed(status):
		case <-s.config.Nodes.Changed(node):
		case <-s.broken:
		case <-retry:
		}
	}
}

// sync makes what is open equal what is wanted: first closing, then opening.
func (s *Server) sync(ctx context.Context, status *vip.Status, node *vip.Node) {
	s.follow(status.Desired)
	hosts := s.hosts(node)
	for number, p := range s.ports {
		if len(s.claims[number]) == 0 {
			p.close()
			delete(s.ports, number)
		} else {
			p.closeOthers(hosts)
		}
	}
	failed := 0
	for number := range s.claims {
		p := s.ports[number]
		if p == nil {
			p = newPort(s, number)
			s.ports[number] = p
		}
		p.answer.Store(s.answer(status, number))
		failed += p.listen(ctx, hosts)
	}
	s.open.Store(int64(len(s.ports)))
	s.failed.Store(int64(failed))
}

// follow brings the claims up to the plan.
func (s *Server) follow(desired *vip.State) {
	for before, after := range vip.PlanChanges(s.seen, desired) {
		if before != nil && before.HealthCheck.Port != 0 {
			delete(s.claims[before.HealthCheck.Port], before.Owner)
			if len(s.claims[before.HealthCheck.Port]) == 0 {
				delete(s.claims, before.HealthCheck.Port)
			}
		}
		if after == nil || after.HealthCheck.Port == 0 {
			continue
		}
		if s.claims[after.HealthCheck.Port] == nil {
			s.claims[after.HealthCheck.Port] = map[discovery.Key]bool{}
		}
		s.claims[after.HealthCheck.Port][after.Owner] = true
	}
	s.seen = desired
}

// hosts are the addresses to listen on; "" is all of them.
func (s *Server) hosts(node *vip.Node) []string {
	if s.config.Everywhere {
		return []string{""}
	}
	hosts := make([]string, len(node.NodePortAddrs))
	for i, a := range node.NodePortAddrs {
		hosts[i] = a.String()
	}
	return hosts
}

// answer is what a port says at present. Only endpoints whose rules are in
// count: a load balancer that came because of others would find nothing.
func (s *Server) answer(status *vip.Status, number uint16) *answer {
	owner := s.owner(status.Snapshot, number)
	a := &answer{service: owner}
	if desired := status.Desired.Plan(owner); desired != nil && status.Applied != nil {
		if applied := status.Applied.Plan(owner); applied != nil {
			a.local = min(desired.HealthCheck.LocalReady, applied.HealthCheck.LocalReady)
		}
	}
	return a
}

// owner returns the service that a port belongs to: of several, the oldest
// (P-26).
func (s *Server) owner(snapshot *discovery.Snapshot, number uint16) discovery.Key {
	claims := make([]*discovery.Service, 0, 1)
	for key := range s.claims[number] {
		claim := &discovery.Service{Key: key}
		if found, ok := snapshot.Services.Get(key); ok {
			claim = found
		}
		claims = append(claims, claim)
	}
	first := slices.MinFunc(claims, older).Key
	switch {
	case len(claims) == 1:
		delete(s.contests, number)
	case s.contests[number] != first:
		s.contests[number] = first
		s.log.Warn("health-check node port is taken", "port", number, "owner", first.String(), "services", len(claims))
	}
	return first
}

// older orders services by age, those of unknown age last, then by name.
func older(a, b *discovery.Service) int {
	switch {
	case a.Created.IsZero() && !b.Created.IsZero():
		return 1
	case !a.Created.IsZero() && b.Created.IsZero():
		return -1
	case !a.Created.Equal(b.Created):
		return a.Created.Compare(b.Created)
	}
	return a.Key.Compare(b.Key)
}

func (s *Server) closeAll() {
	for number, p := range s.ports {
		p.close()
		delete(s.ports, number)
	}
	s.open.Store(0)
	s.failed.Store(0)
}

func address(host string, port uint16) string {
	if a, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(a, port).String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
