package allocator

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// Config says what there is to give out.
type Config struct {
	// ServiceCIDRs are one or two ranges, of different families; the first is
	// the primary family.
	ServiceCIDRs []netip.Prefix
	// NodePorts is the range of node ports; zero means [DefaultNodePorts].
	NodePorts PortRange
	// BalancerPools are the load balancer's ranges; none: no addresses.
	BalancerPools []netip.Prefix
	// StateFile is where allocations are kept; empty: nowhere.
	StateFile string
	// Random returns a number in 0..n-1; nil means math/rand.
	Random func(n uint64) uint64
}

// Allocator gives out numbers and remembers who has which. It is for one goroutine.
type Allocator struct {
	cfg       Config
	services  []*pool
	balancers []*pool
	ports     *space
	held      map[string]Assignment
	state     state
}

// New returns an allocator that has given out nothing yet. Call
// [Allocator.Load] before anything else.
func New(cfg Config) (*Allocator, error) {
	if cfg.Random == nil {
		cfg.Random = rand.Uint64N
	}
	if cfg.NodePorts == (PortRange{}) {
		cfg.NodePorts = DefaultNodePorts
	}
	a := &Allocator{cfg: cfg, held: map[string]Assignment{}, state: newState(cfg.StateFile)}
	if err := a.addServicePools(cfg.ServiceCIDRs); err != nil {
		return nil, err
	}
	for _, p := range cfg.BalancerPools {
		if !p.IsValid() {
			return nil, fmt.Errorf("load-balancer pool %q: not a prefix", p)
		}
		a.balancers = append(a.balancers, newBalancerPool(p))
	}
	size := uint64(cfg.NodePorts.Last) - uint64(cfg.NodePorts.First) + 1
	if cfg.NodePorts.First == 0 || cfg.NodePorts.Last < cfg.NodePorts.First {
		return nil, fmt.Errorf("node port range %q: the first must not be greater than the last, nor 0", cfg.NodePorts)
	}
	static := uint64(0)
	if size > 16 {
		static = clamp(size/32, 16, 128)
	}
	a.ports = newSpace(size, static, 0, cfg.Random)
	return a, nil
}

func (a *Allocator) addServicePools(cidrs []netip.Prefix) error {
	if len(cidrs) == 0 || len(cidrs) > 2 {
		return fmt.Errorf("service ranges: %d given, must be one or two", len(cidrs))
	}
	for _, p := range cidrs {
		if !p.IsValid() {
			return fmt.Errorf("service range %q: not a prefix", p)
		}
		pool, err := newServicePool(p, a.cfg.Random)
		if err != nil {
			return err
		}
		a.services = append(a.services, pool)
	}
	if len(cidrs) == 2 && cidrs[0].Addr().Is4() == cidrs[1].Addr().Is4() {
		return fmt.Errorf("service ranges %q and %q: must be of different families", cidrs[0], cidrs[1])
	}
	return nil
}

// Held returns what a service owns. The caller must not change it.
func (a *Allocator) Held(owner string) Assignment { return a.held[owner] }

// Owners yields everyone who owns something, in no order: also those who are
// known from the state file alone.
func (a *Allocator) Owners() iter.Seq[string] { return maps.Keys(a.held) }

// Release takes everything from an owner and reports whether it had anything.
func (a *Allocator) Release(owner string) bool {
	old, exists := a.held[owner]
	if !exists {
		return false
	}
	for _, r := range old.resources() {
		a.freeIfOwned(r, owner)
	}
	a.record(owner, Assignment{})
	return true
}

// Allocate decides a batch of requests. Where two want the same, the service
// that was created first wins, else the one that stands first in the batch. The
// results stand in the order of the requests. Nothing is durable before
// [Allocator.Save].
func (a *Allocator) Allocate(requests []Request) []Result {
	results := make([]Result, len(requests))
	jobs := make([]*job, len(requests))
	for i := range requests {
		jobs[i] = &job{req: &requests[i], res: &results[i], old: a.held[requests[i].Owner]}
	}
	slices.SortStableFunc(jobs, func(x, y *job) int { return compareAge(x.req, y.req) })
	for _, step := range []func(*job){a.settle, a.shed, a.claim, a.pick, a.finish} {
		for _, j := range jobs {
			step(j)
		}
	}
	return results
}

// compareAge orders requests: known creation times first, oldest first.
func compareAge(x, y *Request) int {
	if x.Created.IsZero() != y.Created.IsZero() {
		if y.Created.IsZero() {
			return -1
		}
		return 1
	}
	return x.Created.Compare(y.Created)
}

// record stores what an owner has, in memory; Save makes it durable.
func (a *Allocator) record(owner string, now Assignment) {
	if now.empty() {
		delete(a.held, owner)
	} else {
		a.held[owner] = now
	}
	a.state.put(owner, now)
}
