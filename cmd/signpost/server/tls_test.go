package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signpost/cmd/signpost/corefile"
)

// TestLoadTLS checks which files are read, and that what is wrong with them is
// told with the line of the directive.
func TestLoadTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t)
	path := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := corefile.TLS{
		Place: corefile.Place{File: "Corefile", Line: 7}, Cert: path("cert.pem", cert), Key: path("key.pem", key), CA: path("ca.pem", cert),
	}
	if c, err := loadTLS(&good); err != nil || len(c.Certificates) != 1 || c.ClientCAs == nil {
		t.Errorf("good files: %v, error %v", c, err)
	}
	if c, err := loadTLS(nil); c != nil || err != nil {
		t.Errorf("no directive: %v, error %v", c, err)
	}
	for name, edit := range map[string]func(*corefile.TLS){
		"no certificate":  func(c *corefile.TLS) { c.Cert = filepath.Join(dir, "missing.pem") },
		"another key":     func(c *corefile.TLS) { _, other := certificate(t); c.Key = path("other.pem", other) },
		"no CA":           func(c *corefile.TLS) { c.CA = filepath.Join(dir, "missing.pem") },
		"no CA in it":     func(c *corefile.TLS) { c.CA = path("empty.pem", "nothing") },
		"no place for it": func(c *corefile.TLS) { c.KeyLog = filepath.Join(dir, "missing", "keys.log") },
	} {
		c := good
		edit(&c)
		if _, err := loadTLS(&c); err == nil || !strings.HasPrefix(err.Error(), "Corefile:7: tls: ") {
			t.Errorf("%s: error %v, want one with its line", name, err)
		}
	}
}
