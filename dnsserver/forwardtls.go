package dnsserver

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// ForwardTLS is how tls and https upstreams are spoken to (RFC 7858, RFC 8484).
// All fields may be empty.
type ForwardTLS struct {
	// CertFile and KeyFile are the client's certificate, CAFile holds those that
	// upstreams are checked against; default: the system's.
	CertFile, KeyFile, CAFile string
	// ServerName is the name that certificates have to be for; default: the
	// upstream's name or address.
	ServerName string
}

// tlsSettings are the loaded files.
type tlsSettings struct {
	base       *tls.Config
	serverName string
}

// load reads the files.
func (c ForwardTLS) load() (*tlsSettings, error) {
	base := &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(2 * maxUpstreams)}
	if c.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading client certificate %q: %w", c.CertFile, err)
		}
		base.Certificates = []tls.Certificate{cert}
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading certificate authorities: %w", err)
		}
		base.RootCAs = x509.NewCertPool()
		if !base.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading certificate authorities: %q: no certificate", c.CAFile)
		}
	}
	return &tlsSettings{base: base, serverName: c.ServerName}, nil
}

// check refuses two names for one server.
func (t *tlsSettings) check(targets []upstreamAddr) error {
	for _, to := range targets {
		if to.serverName != "" && t.serverName != "" {
			return fmt.Errorf("upstream %q: tls_servername %q: one of the two names must go", to.addr, t.serverName)
		}
	}
	return nil
}

// config is the configuration for one upstream.
func (t *tlsSettings) config(to upstreamAddr) *tls.Config {
	c := t.base.Clone()
	c.ServerName = t.nameOf(to)
	return c
}

// nameOf is the name that an upstream's certificate has to be for.
func (t *tlsSettings) nameOf(to upstreamAddr) string {
	return cmp.Or(to.serverName, t.serverName, to.host, to.addr.Addr().String())
}
