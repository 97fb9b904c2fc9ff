package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// healthHandler says that the process lives.
func healthHandler(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "OK") }

// readyHandler answers 503 with a line for each thing that is waited for.
func readyHandler(waiting func() []string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if list := waiting(); len(list) > 0 {
			say(w, http.StatusServiceUnavailable, strings.Join(list, "\n"))
			return
		}
		say(w, http.StatusOK, "OK")
	}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the prober went away
}

// nodeHealth is what kube-proxy's health endpoint tells (L-04).
type nodeHealth struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
}

// healthzHandler serves /healthz and, without the node's part in it, /livez.
// The state of the dataplane comes from the plane.
func healthzHandler(p *plane, withNode bool, codes *prometheus.CounterVec) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		healthy, last := p.keepsUp(now)
		answer := nodeHealth{LastUpdated: last, CurrentTime: now}
		if withNode {
			eligible := p.nodeEligible()
			answer.NodeEligible = &eligible
			healthy = healthy && eligible
		}
		code := http.StatusOK
		if !healthy {
			code = http.StatusServiceUnavailable
		}
		codes.WithLabelValues(strconv.Itoa(code)).Inc()
		sayJSON(w, code, answer)
	}
}

func sayJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the prober went away
}

// proxyModeHandler tells the mode, as kube-proxy's /proxyMode does (L-05).
func proxyModeHandler(mode string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, mode) }
}

// configzHandler shows what is in force, as kube-proxy's /configz does (L-05).
func configzHandler(p *plane) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		sayJSON(w, http.StatusOK, map[string]any{"signpost": p.configz()})
	}
}
