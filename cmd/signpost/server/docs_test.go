package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"signpost/cmd/signpost/corefile"
)

// certificate makes a certificate of loopback and its key, as PEM.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", secret)
}

var fence = regexp.MustCompile("(?ms)^```corefile\n(.*?)^```$")

// TestDocs boots every Corefile in the documentation.
func TestDocs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("finding docs: %v", err)
	}
	t.Setenv("NODE_NAME", "docs")
	cert, key := certificate(t)
	booted := 0
	for _, file := range files {
		name := filepath.Base(file)
		text := readFile(t, "docs/"+name)
		for i, found := range fence.FindAllStringSubmatch(text, -1) {
			line := 1 + strings.Count(text[:strings.Index(text, found[0])], "\n")
			t.Run(fmt.Sprintf("%s:%d", name, line), func(t *testing.T) {
				r := start(t, withAdmin(onOtherPorts(found[1], "127.93.")), map[string]string{
					"../cert.pem": cert, "../key.pem": key, "../ca.pem": cert, "../resolv.conf": "nameserver 192.0.2.1\nsearch example\n",
					"web.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: default}\nspec: {ports: [{port: 80}]}\n",
				})
				if len(r.dns.Addrs()) == 0 && !strings.Contains(found[1], "://") {
					t.Errorf("example %d listens nowhere", i)
				}
				booted++
			})
		}
	}
	if booted < len(corefile.Directives())/2 {
		t.Errorf("%d examples booted", booted)
	}
}

// withAdmin gives a Corefile without an admin socket one of its own, so that
// none is opened where a running server has its own.
func withAdmin(text string) string {
	if strings.Contains(text, "admin ") {
		return text
	}
	at := strings.Index(text, "{\n") + 2
	return text[:at] + "    admin unix://DIR/a.sock\n" + text[at:]
}

// TestDocsNameEverything checks that each directive has a section with an
// example, and that the page has no section of something else.
func TestDocsNameEverything(t *testing.T) {
	t.Parallel()
	text := readFile(t, "docs/corefile.md")
	sections := map[string]string{}
	for _, part := range strings.Split(text, "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		sections[title] = body
	}
	for _, name := range corefile.Directives() {
		body, ok := sections[name]
		if !ok {
			t.Errorf("directive %s has no section", name)
			continue
		}
		if !regexp.MustCompile("(?s)```corefile\n[^`]*\\b" + name + "\\b").MatchString(body) {
			t.Errorf("section %s has no example of it", name)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "docs/dns-cases.md")); err != nil {
		t.Error(err)
	}
}
