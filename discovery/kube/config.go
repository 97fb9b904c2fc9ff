package kube

import (
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Config says which API server to follow and what is wanted of it. Services,
// EndpointSlices and Namespaces always are.
type Config struct {
	API API
	// Nodes are wanted by a dataplane, with them the service ranges where the
	// server tells them, and Pods where pods are answered by
	// name or clients are known by their pods. What isn't wanted is not asked
	// for, and needs no right.
	Nodes, Pods bool
	// Log gets one line when something begins or ends to fail; nil: nowhere.
	Log *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics

	backoff wait.Backoff  // pauses after failures; zero: [defaultBackoff]
	doubt   time.Duration // see [table.Replace]; 0: [emptyDoubt]
	lacking time.Duration // see [fetcher.lacks]; 0: [askAgain]
	grace   time.Duration // see [health.passing]; 0: [refusalGrace]
}

// API is how the API server is reached. Its zero value is a pod's own service
// account.
type API struct {
	// Endpoint is the server's URL. Together with neither CertFile nor
	// Kubeconfig, the pod's service account is used there too, if there is one
	// and the URL is an https one: that is how a node's agent reaches a server
	// without the virtual address that it is itself to make (B10).
	Endpoint                  string
	CertFile, KeyFile, CAFile string
	// Kubeconfig is a file; Context one of its contexts, empty: the current one.
	Kubeconfig, Context string
	// QPS and Burst limit requests, MaxInFlight those that wait for their
	// answer to begin; 0: no limit. Watches are few and long.
	QPS, Burst, MaxInFlight int
}

const (
	// together is how long a change waits for others that belong to it, such as
	// the slice that replaces one that is gone (P-08).
	together = time.Millisecond
	// window is the time between two revisions at least, so that a storm makes
	// few; a lone change does not wait for it.
	window = 10 * time.Millisecond
	// emptyDoubt is how long a kind must stay empty before it counts.
	emptyDoubt = time.Minute
	// askAgain is how often a kind is asked for that the server doesn't have or
	// doesn't show. Many nodes ask.
	askAgain = 5 * time.Minute
	// refusalGrace is how long a refusal may be that of a server which has just
	// started.
	refusalGrace = time.Minute
)

// defaultBackoff spreads the attempts of many nodes after an outage.
func defaultBackoff() wait.Backoff {
	return wait.Backoff{Duration: 500 * time.Millisecond, Cap: 15 * time.Second, Steps: 30, Factor: 2, Jitter: 1}
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.backoff == (wait.Backoff{}) {
		c.backoff = defaultBackoff()
	}
	if c.doubt == 0 {
		c.doubt = emptyDoubt
	}
	if c.lacking == 0 {
		c.lacking = askAgain
	}
	if c.grace == 0 {
		c.grace = refusalGrace
	}
	return c
}
