package kube

import (
	"crypto"
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
	"testing"
	"time"
)

// pki is what a control plane trusts: one authority for servers and clients,
// and the key of the service accounts' tokens.
type pki struct {
	dir       string
	authority *x509.Certificate
	key       crypto.Signer
	admin     tls.Certificate // of system:masters
	roots     *x509.CertPool
}

// newPKI makes everything, and in the folder the files ca.crt, and NAME.crt and
// NAME.key of server and admin, accounts.key and accounts.pub.
func newPKI(t *testing.T, dir string) *pki {
	t.Helper()
	p := &pki{dir: dir, key: newKey(t), roots: x509.NewCertPool()}
	template := p.template("test-ca")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, p.key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	if p.authority, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	p.roots.AddCert(p.authority)
	p.write(t, "ca.crt", "CERTIFICATE", der)

	server := p.template("kube-apiserver")
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	made := p.issue(t, server)
	p.write(t, "server.crt", "CERTIFICATE", made.Certificate[0])
	p.write(t, "server.key", "PRIVATE KEY", marshal(t, made.PrivateKey))
	accounts := newKey(t)
	p.write(t, "accounts.key", "PRIVATE KEY", marshal(t, accounts))
	public, err := x509.MarshalPKIXPublicKey(accounts.Public())
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "accounts.pub", "PUBLIC KEY", public)

	admin := p.template("admin")
	admin.Subject.Organization = []string{"system:masters"}
	admin.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	p.admin = p.issue(t, admin)
	p.write(t, "admin.crt", "CERTIFICATE", p.admin.Certificate[0])
	p.write(t, "admin.key", "PRIVATE KEY", marshal(t, p.admin.PrivateKey))
	return p
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(p.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (*pki) template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func (p *pki) issue(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, p.authority, key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func marshal(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
