package dnsserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// certificate makes a certificate for loopback that is its own authority.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// secureServer serves names over DoT or DoH.
func secureServer(t *testing.T, transport Transport, edit func(*tls.Config)) (netip.AddrPort, *x509.CertPool, *Server) {
	t.Helper()
	cert, pool := certificate(t)
	cfg := configFor()
	cfg.Blocks[0].Transport = transport
	cfg.Blocks[0].TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, ClientCAs: pool}
	edit(cfg.Blocks[0].TLS)
	s := startWith(t, cfg, static(t, "@ 7 IN A 192.0.2.1"))
	if n := len(s.Addrs()); n != 0 {
		t.Errorf("%d plain addresses", n)
	}
	return s.TransportAddrs(transport)[0], pool, s
}

// TestDoT checks DNS over TLS (F6, RFC 7858).
func TestDoT(t *testing.T) {
	t.Parallel()
	to, pool, s := secureServer(t, DoT, func(*tls.Config) {})
	conn, err := dns.DialWithTLS("tcp-tls", to.String(), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	for range 3 { // several queries at once on one connection
		if err := conn.WriteMsg(askFor("a.example.", dns.TypeA)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		m, err := conn.ReadMsg()
		if err != nil || brief(m) != "NOERROR [a.example. 7 IN A 192.0.2.1]" {
			t.Fatalf("F6: %v, error %v", m, err)
		}
	}
	until(t, "F6 three queries counted for server tls://", func() bool {
		return s.metrics.block("tls://127.0.0.1:0", ".").sum().requests[protoTCP][0][0] == 3
	})
	old := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11} //nolint:gosec // what must be refused
	if _, err := dns.DialWithTLS("tcp-tls", to.String(), old); err == nil {
		t.Error("F6 TLS 1.1: accepted")
	}
	plain := dialTCP(t, to)
	plain.send(frame(pack(t, askFor("a.example.", dns.TypeA))))
	if n, err := plain.Read(make([]byte, 100)); n > 0 && err == nil && n != 7 { // an alert has seven octets
		t.Errorf("F6 without TLS: %d octets", n)
	}
}

// TestDoTClientAuth checks client certificates (F6).
func TestDoTClientAuth(t *testing.T) {
	t.Parallel()
	var own tls.Certificate
	to, pool, _ := secureServer(t, DoT, func(c *tls.Config) {
		c.ClientAuth, own = tls.RequireAndVerifyClientCert, c.Certificates[0]
	})
	for name, certs := range map[string][]tls.Certificate{"F6 with": {own}, "F6 without": nil} {
		client := dns.Client{Net: "tcp-tls", Timeout: patience, TLSConfig: &tls.Config{
			RootCAs: pool, Certificates: certs, MinVersion: tls.VersionTLS12,
		}}
		_, _, err := client.Exchange(askFor("a.example.", dns.TypeA), to.String())
		if (err == nil) != (certs != nil) {
			t.Errorf("%s a certificate: error %v", name, err)
		}
	}
}

// TestDoH checks DNS over HTTPS (F6, RFC 8484).
func TestDoH(t *testing.T) {
	t.Parallel()
	to, pool, s := secureServer(t, DoH, func(*tls.Config) {})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport, Timeout: patience}
	t.Cleanup(transport.CloseIdleConnections)
	url := "https://" + to.String() + dohPath
	query := pack(t, askFor("a.example.", dns.TypeA))
	do := func(method, url, kind string, body []byte) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, text
	}
	encoded := "?dns=" + base64.RawURLEncoding.EncodeToString(query)
	for name, tt := range map[string]struct {
		method, url, kind string
		body              []byte
		status            int
	}{
		"F6 POST":                 {"POST", url, dohContentType, query, 200},
		"F6 GET":                  {"GET", url + encoded, "", nil, 200},
		"F6 another type":         {"POST", url, "text/plain", query, 415},
		"F6 another method":       {"PUT", url, dohContentType, query, 405},
		"F6 no query":             {"GET", url, "", nil, 400},
		"F6 not base64":           {"GET", url + "?dns=%20", "", nil, 400},
		"F6 no message":           {"POST", url, dohContentType, []byte("short"), 400},
		"F6 too large":            {"POST", url, dohContentType, make([]byte, 70_000), 413},
		"F6 another path":         {"GET", "https://" + to.String() + "/" + encoded, "", nil, 404},
		"F6 rejected by its wire": {"POST", url, dohContentType, raw(hexQuery, hexOne, hexName, "00fa 0001"), 200},
	} {
		resp, body := do(tt.method, tt.url, tt.kind, tt.body)
		if resp.StatusCode != tt.status {
			t.Errorf("%s: status %d, want %d", name, resp.StatusCode, tt.status)
		}
		if resp.ProtoMajor != 2 {
			t.Errorf("%s: %s, want HTTP/2", name, resp.Proto)
		}
		if len(tt.body) == len(query) && tt.status == 200 || name == "F6 GET" {
			if got := brief(unpack(t, body)); got != "NOERROR [a.example. 7 IN A 192.0.2.1]" || resp.Header.Get("Cache-Control") != "max-age=7" {
				t.Errorf("%s: %s, %v", name, got, resp.Header)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("F6 shutdown: %v", err)
	}
}

// TestTransportsReload checks that a reload can add and take away a transport,
// and that two don't get one address.
func TestTransportsReload(t *testing.T) {
	t.Parallel()
	cert, _ := certificate(t)
	cfg := configFor()
	s := startWith(t, cfg, nil)
	port := func() string { return "127.0.0.1:" + strconv.Itoa(int(addrOf(s).Port())) }
	secure := Block{Zones: []string{"."}, Listen: []string{"127.0.0.1:0"}, Transport: DoT, TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
	both := cfg
	both.Blocks = append([]Block{secure}, cfg.Blocks...)
	if err := s.Reload(t.Context(), both); err != nil || len(s.TransportAddrs(DoT)) != 1 || len(s.Addrs()) != 1 {
		t.Errorf("both: %v, %v, error %v", s.TransportAddrs(DoT), s.Addrs(), err)
	}
	if err := s.Reload(t.Context(), cfg); err != nil || len(s.TransportAddrs(DoT)) != 0 || len(s.Addrs()) != 1 {
		t.Errorf("without: %v, error %v", s.TransportAddrs(DoT), err)
	}
	clash := both
	clash.Blocks = []Block{secure, {Zones: []string{"."}, Listen: []string{port()}}}
	clash.Blocks[0].Listen = []string{port()}
	if err := s.Reload(t.Context(), clash); err == nil {
		t.Error("one address for two transports: no error")
	}
}

// FuzzDoHCacheControl gives it any reply: no panic.
func FuzzDoHCacheControl(f *testing.F) {
	f.Add(pack(f, new(dns.Msg).SetReply(askFor("a.", dns.TypeA))))
	f.Fuzz(func(_ *testing.T, b []byte) { dohCacheControl(b) })
}
