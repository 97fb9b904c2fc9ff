package manifest

import (
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"signpost/discovery/allocator"
	"signpost/discovery/convert"
)

// Config says which folder, and what a cluster's settings would say.
type Config struct {
	// Dir is the folder. Files below it are named in problems as Dir/....
	Dir string
	// ServiceCIDRs are one or two ranges of cluster IPs, primary family first.
	ServiceCIDRs []netip.Prefix
	// NodePorts is the range of node ports; zero means 30000-32767.
	NodePorts allocator.PortRange
	// LoadBalancerPools give LoadBalancer Services their addresses; none: they
	// stay pending.
	LoadBalancerPools []netip.Prefix
	// StateFile keeps what was allocated across restarts; empty: nothing does.
	StateFile string
	// Probe runs the pods' readiness probes.
	Probe bool
	// Rescan is the time between two full looks at the folder, which find what
	// file notification missed; 0 means 30 s.
	Rescan time.Duration
	// Log gets one line for each problem that comes or goes; nil means nowhere.
	Log *slog.Logger

	now func() time.Time // the clock by which files are doubted; nil: the system's
}

// The timing of reactions. A change is served within 100 ms of the write
// (dns-requirements L7): quiet, then at most one settle, then the work.
const (
	// quiet is how long a burst of notifications must have paused.
	quiet = 8 * time.Millisecond
	// patience is the most that a burst is waited for.
	patience = 40 * time.Millisecond
	// settle is how long a file that looks half-written or is gone must have
	// stayed so: writers and editors need several steps for one save.
	settle = 50 * time.Millisecond
	// defaultRescan is the period of full looks.
	defaultRescan = 30 * time.Second
	// pollInterval is the period of full looks where notification doesn't work.
	pollInterval = 50 * time.Millisecond
	// saveRetry is the pause after a state file could not be written.
	saveRetry = time.Second
)

func (c Config) allocator() allocator.Config {
	return allocator.Config{
		ServiceCIDRs: c.ServiceCIDRs, NodePorts: c.NodePorts,
		BalancerPools: c.LoadBalancerPools, StateFile: c.StateFile,
	}
}

// options says what defaulting and validation need to know. Endpoints on
// loopback addresses are accepted: a folder may describe programs on this
// machine, and only a cluster's own rules forbid that.
func (c Config) options() convert.Options {
	o := convert.Options{AllowLoopback: true}
	for _, p := range c.ServiceCIDRs {
		family := corev1.IPv4Protocol
		if p.Addr().Is6() {
			family = corev1.IPv6Protocol
		}
		o.Families = append(o.Families, family)
	}
	return o
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.Dir = filepath.Clean(c.Dir)
	if c.Rescan == 0 {
		c.Rescan = defaultRescan
	}
	return c
}
