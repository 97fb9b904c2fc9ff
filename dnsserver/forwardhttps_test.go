package dnsserver

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// httpsUpstream answers DNS over HTTPS, for as long as its test runs.
type httpsUpstream struct {
	*httptest.Server
	gets, posts atomic.Int32
	host        atomic.Pointer[string]
}

func newHTTPSUpstream(t *testing.T, cert tls.Certificate, answer http.HandlerFunc) *httpsUpstream {
	t.Helper()
	up := &httpsUpstream{}
	up.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up.host.Store(&r.Host)
		if r.Method == http.MethodGet {
			up.gets.Add(1)
		} else {
			up.posts.Add(1)
		}
		answer(w, r)
	}))
	up.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	up.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes
	up.EnableHTTP2 = true
	up.StartTLS()
	t.Cleanup(up.Close)
	return up
}

// dohAnswer replies to the question in a request, from id 0 to id id.
func dohAnswer(t *testing.T, id uint16) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, status := dohQuery(w, r)
		if status != http.StatusOK || r.URL.Path != dohPath {
			http.Error(w, "", http.StatusBadRequest)
			return
		}
		q := new(dns.Msg)
		if err := q.Unpack(raw); err != nil || q.Id != 0 {
			http.Error(w, "", http.StatusBadRequest)
			return
		}
		m := good(t, q, "@ 60 IN A 192.0.2.1")
		m.Id = id
		wire, _ := m.Pack() // records that were parsed
		w.Header().Set("Content-Type", dohContentType)
		_, _ = w.Write(wire)
	}
}

// TestForwardHTTPS checks upstreams that are asked over HTTPS.
func TestForwardHTTPS(t *testing.T) {
	t.Parallel()
	cert, dir := selfSigned(t, "dns.example")
	ca := filepath.Join(dir, "cert.pem")
	status := func(code int, kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		get    bool
		conf   ForwardTLS
		ok     bool
	}{
		{"F1 POST", dohAnswer(t, 0), false, ForwardTLS{CAFile: ca}, true},
		{"F1 doh_method GET", dohAnswer(t, 0), true, ForwardTLS{CAFile: ca}, true},
		{"F1 tls_servername", dohAnswer(t, 0), false, ForwardTLS{CAFile: ca, ServerName: "dns.example"}, true},
		{"F1 another name", dohAnswer(t, 0), false, ForwardTLS{CAFile: ca, ServerName: "other.example"}, false},
		{"F1 the system's authorities", dohAnswer(t, 0), false, ForwardTLS{}, false},
		{"F1 the reply to another question", dohAnswer(t, 1), false, ForwardTLS{CAFile: ca}, false},
		{"F1 an error", status(http.StatusInternalServerError, dohContentType), false, ForwardTLS{CAFile: ca}, false},
		{"F1 another content", status(http.StatusOK, "text/html"), false, ForwardTLS{CAFile: ca}, false},
		{"F1 nothing", status(http.StatusOK, dohContentType), false, ForwardTLS{CAFile: ca}, false},
		{"F1 a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://192.0.2.1/", http.StatusFound)
		}, false, ForwardTLS{CAFile: ca}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := newHTTPSUpstream(t, cert, tt.answer)
			cfg, fc := forwardTo()
			fc.To, fc.TLS, fc.HTTPGet, fc.Timeout = []string{up.URL}, tt.conf, tt.get, patience
			s := startWith(t, cfg, nil)
			for range 3 {
				r := askFor("a.example.", dns.TypeA)
				m := queryUDP(t, addrOf(s), r)
				if got := answerOf(m); (got == "192.0.2.1") != tt.ok || m.Id != r.Id {
					t.Fatalf("answer %s, want one: %v", got, tt.ok)
				}
			}
			if !tt.ok {
				return
			}
			if n := map[bool]int32{true: up.gets.Load(), false: up.posts.Load()}[tt.get]; n != 3 {
				t.Errorf("%d requests of the method for three questions", n)
			}
			label := strings.TrimPrefix(up.URL, "https://")
			if n := testutil.ToFloat64(s.metrics.connMisses.WithLabelValues(proxyName, label, "https")); n != 1 {
				t.Errorf("%v connections for three questions", n)
			}
			if host := *up.host.Load(); tt.conf.ServerName != "" && !strings.HasPrefix(host, tt.conf.ServerName+":") {
				t.Errorf("asked for host %q", host)
			}
		})
	}
}

// TestForwardHTTPSHealth checks that an upstream over HTTPS that was down is
// asked again when it is up.
func TestForwardHTTPSHealth(t *testing.T) {
	t.Parallel()
	cert, dir := selfSigned(t)
	var down atomic.Bool
	down.Store(true)
	up := newHTTPSUpstream(t, cert, func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		dohAnswer(t, 0)(w, r)
	})
	cfg, fc := forwardTo()
	fc.To, fc.Timeout = []string{up.URL}, patience
	fc.TLS = ForwardTLS{CAFile: filepath.Join(dir, "cert.pem")}
	fc.Health = HealthConfig{MaxFails: 1, Interval: time.Millisecond, FailFast: true}
	s := startWith(t, cfg, nil)
	ask := func() string { return answerOf(queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))) }
	if got := ask(); got == "192.0.2.1" {
		t.Fatalf("F1 down: %s", got)
	}
	down.Store(false)
	until(t, "F1 up again", func() bool { return ask() == "192.0.2.1" })
}
