package kube

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// health knows which kinds can't be followed at present. It logs when that
// begins and when it is over, not each attempt in between (X08).
type health struct {
	log     *slog.Logger
	host    string
	metrics *Metrics
	grace   time.Duration // see [health.passing]

	mu      sync.Mutex
	failing map[string]bool
	denied  map[string]bool      // for want of a right; logged by kind
	granted map[string]bool      // was followed at some time
	refused map[string]time.Time // since when
	lacked  map[string]bool      // optional, and the server has none to show
	since   time.Time
}

func newHealth(log *slog.Logger, host string, m *Metrics) *health {
	return &health{
		log: log, host: host, metrics: m, failing: map[string]bool{}, denied: map[string]bool{}, lacked: map[string]bool{},
		granted: map[string]bool{}, refused: map[string]time.Time{},
	}
}

// failed notes that a kind can't be listed or watched.
func (h *health) failed(resource string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metrics.failed(resource)
	first := len(h.failing) == 0
	h.failing[resource] = true
	if first {
		h.since = time.Now()
	}
	denied := (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) && !h.mayPass(resource)
	switch {
	case denied && !h.denied[resource]:
		h.denied[resource] = true
		h.log.Error("the API server refuses: the account needs the rights to list and watch (see deploy/rbac.yaml)",
			"resource", resource, "server", h.host, "err", err)
	case first && !denied:
		h.log.Warn("following the API server fails: going on with what is known, and trying again",
			"resource", resource, "server", h.host, "err", err)
	}
}

// lacking notes that the server doesn't have or show a kind that the source can
// do without. That is no failure.
func (h *health) lacking(resource string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metrics.lacking(resource)
	h.over(resource)
	if !h.lacked[resource] {
		h.lacked[resource] = true
		h.log.Info("the API server has no such kind or doesn't show it: working without, and asking again now and then",
			"resource", resource, "server", h.host, "err", err)
	}
}

// passing reports whether a refusal may be one that passes: it is a new one, and
// the kind was followed before. An API server that has just started knows
// neither rights nor all kinds for a moment.
func (h *health) passing(resource string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mayPass(resource)
}

func (h *health) mayPass(resource string) bool {
	return h.refusedFor(resource) < h.grace && h.granted[resource]
}

// lasting reports whether refusals have gone on for so long that there will
// hardly be another answer soon.
func (h *health) lasting(resource string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refusedFor(resource) >= h.grace
}

// refusedFor is how long a kind is refused; from now, if it was not.
func (h *health) refusedFor(resource string) time.Duration {
	if h.refused[resource].IsZero() {
		h.refused[resource] = time.Now()
	}
	return time.Since(h.refused[resource])
}

// recovered notes that a kind is followed again.
func (h *health) recovered(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metrics.recovered(resource)
	delete(h.lacked, resource)
	delete(h.refused, resource)
	h.granted[resource] = true
	h.over(resource)
}

// over notes that nothing fails any more with a kind.
func (h *health) over(resource string) {
	delete(h.denied, resource)
	if !h.failing[resource] {
		return
	}
	delete(h.failing, resource)
	if len(h.failing) == 0 {
		h.log.Info("following the API server again", "server", h.host, "after", time.Since(h.since).Round(time.Millisecond))
	}
}

// list returns the kinds that can't be followed, sorted.
func (h *health) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.failing))
}
