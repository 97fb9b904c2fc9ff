package dnsserver

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"

	"github.com/miekg/dns"
)

const (
	dohPath        = "/dns-query"
	dohContentType = "application/dns-message"
)

// dohServer serves a listening address over HTTPS (RFC 8484).
type dohServer struct {
	l    *listener
	http *http.Server
}

func newDoHServer(l *listener, limits TCPConfig) *dohServer {
	d := &dohServer{l: l}
	mux := http.NewServeMux()
	mux.HandleFunc(dohPath, d.serve)
	d.http = &http.Server{
		Handler: mux,
		// Each connection gets the certificate that is then in force.
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"h2", "http/1.1"},
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return l.serving.Load().tls, nil
			},
		},
		ReadHeaderTimeout: limits.Idle,
		ReadTimeout:       limits.Idle,
		IdleTimeout:       limits.Idle,
		ErrorLog:          log.New(io.Discard, "", 0), // of clients' mistakes
	}
	return d
}

// run serves until drain or abort.
func (d *dohServer) run() {
	_ = d.http.ServeTLS(limitedListener{d.l.tcp}, "", "") // ends when it is told to
}

// drain ends connections as soon as nothing is asked on them.
func (d *dohServer) drain() {
	_ = d.http.Shutdown(context.WithoutCancel(d.l.srv.base)) // abort ends it early
}

// abort cuts all connections.
func (d *dohServer) abort() {
	_ = d.http.Close() // whoever uses them notices
}

// serve answers one HTTP request.
func (d *dohServer) serve(w http.ResponseWriter, r *http.Request) {
	raw, status := dohQuery(w, r)
	if status != http.StatusOK {
		http.Error(w, http.StatusText(status), status)
		return
	}
	x := &dohExchange{from: textAddr(r.RemoteAddr), at: d.l.addr}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		x.at = local.AddrPort()
	}
	if !d.answer(r.Context(), x, raw) {
		http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
		return
	}
	if x.reply == nil { // dropped on purpose
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", dohContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(x.reply)))
	w.Header().Set("Cache-Control", dohCacheControl(x.reply))
	_, _ = w.Write(x.reply) // a client that is gone needs none
}

// answer runs the query; false means that it is none.
func (d *dohServer) answer(ctx context.Context, x *dohExchange, raw []byte) bool {
	s, sv := d.l.srv, d.l.serving.Load()
	var buf [512]byte
	in, v := s.screen(sv, x, protoTCP, raw, buf[:])
	switch v {
	case discard:
		return false
	case reject:
		return true
	case accept:
	}
	if !s.tcpSlots.acquire(ctx) {
		return true
	}
	defer s.tcpSlots.release()
	s.serve(&query{serving: sv, proto: protoTCP, in: in, raw: raw, client: x})
	return true
}

// dohQuery takes the DNS message out of a request, or returns the status to
// refuse it with.
func dohQuery(w http.ResponseWriter, r *http.Request) ([]byte, int) {
	switch r.Method {
	case http.MethodGet:
		text := r.URL.Query().Get("dns")
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || text == "" || len(raw) > maxTCPSize {
			return nil, http.StatusBadRequest
		}
		return raw, http.StatusOK
	case http.MethodPost:
		if r.Header.Get("Content-Type") != dohContentType {
			return nil, http.StatusUnsupportedMediaType
		}
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTCPSize))
		if err != nil {
			return nil, http.StatusRequestEntityTooLarge
		}
		return raw, http.StatusOK
	}
	return nil, http.StatusMethodNotAllowed
}

// dohCacheControl says how long an HTTP cache may keep a reply: as long as its
// shortest-lived record (RFC 8484 5.1).
func dohCacheControl(reply []byte) string {
	m := new(dns.Msg)
	if err := m.Unpack(reply); err != nil || m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
		return "no-store"
	}
	if len(m.Answer) == 0 && !hasSOA(m.Ns) {
		return "no-store"
	}
	ttl := ^uint32(0)
	for _, rr := range m.Answer {
		ttl = min(ttl, rr.Header().Ttl)
	}
	if hasSOA(m.Ns) {
		ttl = min(ttl, negativeTTL(m))
	}
	return "max-age=" + strconv.FormatUint(uint64(ttl), 10)
}

// dohExchange is the client of one HTTP request.
type dohExchange struct {
	from, at netip.AddrPort
	reply    []byte
}

// send implements client.
func (x *dohExchange) send(reply []byte) error {
	x.reply = append(x.reply[:0], reply...)
	return nil
}

func (x *dohExchange) local() netip.AddrPort  { return x.at }
func (x *dohExchange) remote() netip.AddrPort { return x.from }

// textAddr parses an address that package net wrote.
func textAddr(text string) netip.AddrPort {
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	}
	return a
}

// limitedListener accepts connections within the limits of a listening
// address (W24).
type limitedListener struct{ t *tcpServer }

// Accept implements [net.Listener].
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.t.ln.AcceptTCP()
		if err != nil && !l.t.l.stopped() {
			l.t.l.pause()
			continue
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // only looked at
		}
		counted := &countedConn{TCPConn: conn, t: l.t}
		if l.t.admit(counted) {
			return counted, nil
		}
		l.t.l.srv.metrics.dropped(dropConns)
		_ = conn.Close() // nothing was promised
	}
}

// Close implements [net.Listener].
func (l limitedListener) Close() error {
	return l.t.ln.Close() //nolint:wrapcheck // adds nothing
}

// Addr implements [net.Listener].
func (l limitedListener) Addr() net.Addr { return l.t.ln.Addr() }

// countedConn is a connection that is counted until it is closed.
type countedConn struct {
	*net.TCPConn
	t    *tcpServer
	once sync.Once
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	c.once.Do(func() { c.t.forget(c) })
	return c.TCPConn.Close() //nolint:wrapcheck // adds nothing
}

var (
	_ client   = (*dohExchange)(nil)
	_ net.Conn = (*countedConn)(nil)
)
