package dnsserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"

	"github.com/miekg/dns"
)

// httpsClient asks one upstream over HTTPS (RFC 8484). Connections are kept by
// package http; with HTTP/2 one carries many queries.
type httpsClient struct {
	client *http.Client
	url    url.URL
	get    bool
	trace  *httptrace.ClientTrace // counts connections
}

// newHTTPSClient makes a client whose connections are the pool's in limits and
// counters.
func newHTTPSClient(to upstreamAddr, secure *tls.Config, pool *connPool, get bool) *httpsClient {
	host := secure.ServerName
	if port := to.addr.Port(); port != httpsPort {
		host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	} else if to.addr.Addr().Is6() && host == to.addr.Addr().String() {
		host = "[" + host + "]"
	}
	transport := &http.Transport{
		// The address is known; the name is for the certificate.
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return pool.dial(ctx) },
		TLSClientConfig:     secure,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        pool.conf.MaxIdle,
		MaxIdleConnsPerHost: pool.conf.MaxIdle,
		IdleConnTimeout:     pool.conf.Expire,
		DisableCompression:  true,
	}
	return &httpsClient{
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		url: url.URL{Scheme: "https", Host: host, Path: dohPath}, get: get,
		trace: &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			if c.Reused {
				pool.hits.Inc()
				return
			}
			pool.misses.Inc()
		}},
	}
}

// request wraps a question.
func (c *httpsClient) request(ctx context.Context, wire []byte) (*http.Request, error) {
	method, target, body := http.MethodPost, c.url, wire
	if c.get {
		method, body = http.MethodGet, nil
		target.RawQuery = "dns=" + base64.RawURLEncoding.EncodeToString(wire)
	}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, c.trace), method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making request: %w", err)
	}
	r.Header.Set("Accept", dohContentType)
	if !c.get {
		r.Header.Set("Content-Type", dohContentType)
	}
	return r, nil
}

// overHTTPS asks once.
func (e *exchanger) overHTTPS(ctx context.Context, up *upstream, asked *dns.Msg, wire []byte) (*dns.Msg, error) {
	r, err := up.https.request(ctx, wire)
	if err != nil {
		return nil, err
	}
	resp, err := up.https.client.Do(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // names the operation and the URL
	}
	defer func() { _ = resp.Body.Close() }() // what is of interest was read
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != dohContentType {
		return nil, fmt.Errorf("got status %d with content %q", resp.StatusCode, kind)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTCPSize))
	if err != nil {
		return nil, fmt.Errorf("reading reply: %w", err)
	}
	reply, err := matching(asked, body)
	if err != nil {
		e.forged.Inc()
	}
	return reply, err
}
