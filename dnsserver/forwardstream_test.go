package dnsserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// selfSigned makes a certificate for names and addresses and writes it, as PEM,
// to a folder: cert.pem and key.pem.
func selfSigned(t testing.TB, names ...string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, dir
}

// TestForwardTLS checks DoT upstreams: names, certificates, client
// certificates, connections used again.
func TestForwardTLS(t *testing.T) {
	t.Parallel()
	cert, dir := selfSigned(t, "dns.example")
	_, foreign := selfSigned(t, "dns.example")
	ca := filepath.Join(dir, "cert.pem")
	pool := x509.NewCertPool()
	pool.AddCert(must(x509.ParseCertificate(cert.Certificate[0])))
	for _, tt := range []struct {
		name   string
		auth   tls.ClientAuthType
		server string // behind the address
		conf   ForwardTLS
		ok     bool
	}{
		{"F1 the address's certificate", tls.NoClientCert, "", ForwardTLS{CAFile: ca}, true},
		{"F1 tls_servername", tls.NoClientCert, "", ForwardTLS{CAFile: ca, ServerName: "dns.example"}, true},
		{"F1 a name for this server", tls.NoClientCert, "dns.example", ForwardTLS{CAFile: ca}, true},
		{"F1 another name", tls.NoClientCert, "", ForwardTLS{CAFile: ca, ServerName: "other.example"}, false},
		{"F1 another authority", tls.NoClientCert, "", ForwardTLS{CAFile: filepath.Join(foreign, "cert.pem")}, false},
		{"F1 the system's authorities", tls.NoClientCert, "", ForwardTLS{}, false},
		{"F1 a client certificate", tls.RequireAndVerifyClientCert, "", ForwardTLS{CAFile: ca, CertFile: ca, KeyFile: filepath.Join(dir, "key.pem")}, true},
		{"F1 no client certificate", tls.RequireAndVerifyClientCert, "", ForwardTLS{CAFile: ca}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := newScriptedOver(t, func(l net.Listener) net.Listener {
				return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tt.auth, ClientCAs: pool})
			}, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{good(t, r, "@ 60 IN A 192.0.2.1")} })
			cfg, fc := forwardTo(up)
			fc.Timeout = 5 * time.Second
			to := upstreamAddr{addr: up.addr, transport: DoT, serverName: tt.server}
			fc.To, fc.TLS = []string{to.String()}, tt.conf
			s := startWith(t, cfg, nil)
			for range 3 {
				if got := answerOf(queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))); (got == "192.0.2.1") != tt.ok {
					t.Fatalf("answer %s, want one: %v", got, tt.ok)
				}
			}
			if tt.ok && up.conns.Load() != 1 {
				t.Errorf("%d connections for three questions", up.conns.Load())
			}
			if up.udp.Load() != 0 {
				t.Error("asked in the clear")
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestForwardTLSConfig checks what is refused before anything is asked.
func TestForwardTLSConfig(t *testing.T) {
	t.Parallel()
	_, dir := selfSigned(t)
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, fc := range map[string]ForwardConfig{
		"F1 two names":         {To: []string{"tls://192.0.2.1%a.example"}, TLS: ForwardTLS{ServerName: "b.example"}},
		"F1 no certificate":    {To: []string{"tls://192.0.2.1"}, TLS: ForwardTLS{CertFile: empty, KeyFile: empty}},
		"F1 no authority":      {To: []string{"tls://192.0.2.1"}, TLS: ForwardTLS{CAFile: empty}},
		"F1 no such file":      {To: []string{"tls://192.0.2.1"}, TLS: ForwardTLS{CAFile: filepath.Join(dir, "missing")}},
		"F1 health of no name": {To: []string{"192.0.2.1"}, Health: HealthConfig{Domain: "a..b"}},
		"F1 negative pause":    {To: []string{"192.0.2.1"}, Health: HealthConfig{Interval: -1}},
	} {
		fc.From = "."
		cfg := configFor()
		cfg.Blocks[0].Forwards = []ForwardConfig{fc}
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestForwardReuse checks that a connection which the upstream has closed
// meanwhile costs no answer.
func TestForwardReuse(t *testing.T) {
	t.Parallel()
	up := constant(t, "192.0.2.1")
	cfg, fc := forwardTo(up)
	fc.ForceTCP, fc.Timeout = true, 5*time.Second
	s := startWith(t, cfg, nil)
	for i := range 4 {
		if got := answerOf(queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))); got != "192.0.2.1" {
			t.Fatalf("question %d: %s", i, got)
		}
		if i == 1 {
			up.hangUp()
		}
	}
	if n := up.conns.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// TestConnPool checks expire, max_age, the limit of idle connections, and the
// end.
func TestConnPool(t *testing.T) {
	t.Parallel()
	counter := func() prometheus.Counter { return prometheus.NewCounter(prometheus.CounterOpts{}) }
	newPool := func(conf PoolConfig, open *atomic.Int32) *connPool {
		return &connPool{conf: conf, hits: counter(), misses: counter(), dial: func(context.Context) (net.Conn, error) {
			open.Add(1)
			a, _ := net.Pipe()
			return &tallyConn{a, open}, nil
		}}
	}
	get := func(t *testing.T, p *connPool) (pooledConn, bool) {
		c, reused, err := p.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c, reused
	}
	for _, tt := range []struct {
		name  string
		conf  PoolConfig
		idle  time.Duration // between two uses
		uses  int
		again int // how many of them are of a connection that was there
	}{
		{"F1 expire", PoolConfig{Expire: 10 * time.Second, MaxIdle: 4}, 10 * time.Second, 3, 0},
		{"F1 in time", PoolConfig{Expire: 10 * time.Second, MaxIdle: 4}, 9 * time.Second, 5, 4},
		{"F1 max_age", PoolConfig{Expire: 10 * time.Second, MaxAge: 15 * time.Second, MaxIdle: 4}, 9 * time.Second, 5, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var open atomic.Int32
				again := 0
				p := newPool(tt.conf, &open)
				for range tt.uses {
					c, reused := get(t, p)
					if reused {
						again++
					}
					p.put(c)
					time.Sleep(tt.idle)
				}
				if again != tt.again {
					t.Errorf("%d used again, want %d", again, tt.again)
				}
				time.Sleep(tt.conf.Expire)
				synctest.Wait()
				if n := open.Load(); n != 0 {
					t.Errorf("%d connections are open after they expired", n)
				}
			})
		})
	}
	t.Run("F1 idle ones are limited, and closed at the end", func(t *testing.T) {
		var open atomic.Int32
		p := newPool(PoolConfig{Expire: time.Hour, MaxIdle: 2}, &open)
		var conns []pooledConn
		for range 4 {
			c, _ := get(t, p)
			conns = append(conns, c)
		}
		for _, c := range conns[:3] {
			p.put(c)
		}
		if n := open.Load(); n != 3 {
			t.Errorf("%d open, want two idle and one in use", n)
		}
		p.close()
		p.put(conns[3])
		if n := open.Load(); n != 0 {
			t.Errorf("%d open after the end", n)
		}
	})
}

// tallyConn counts itself out when it is closed, by whomever: the pool's timer
// does it too.
type tallyConn struct {
	net.Conn
	open *atomic.Int32
}

func (c *tallyConn) Close() error {
	c.open.Add(-1)
	return c.Conn.Close()
}
