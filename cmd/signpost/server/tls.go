package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"signpost/cmd/signpost/corefile"
)

// loadTLS reads the files of a tls directive; nil stays nil.
func loadTLS(t *corefile.TLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, t.Errorf("tls", "reading the certificate: %v", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, ClientAuth: t.ClientAuth}
	if t.CA != "" {
		if config.ClientCAs, err = loadPool(t.CA); err != nil {
			return nil, t.Errorf("tls", "reading the CA: %v", err)
		}
	}
	if t.KeyLog != "" {
		log, err := os.OpenFile(t.KeyLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, t.Errorf("tls", "opening the key log: %v", err)
		}
		config.KeyLogWriter = log // closed with its last user
	}
	return config, nil
}

// loadPool reads certificates of authorities.
func loadPool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("opening: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("there is no certificate in it")
	}
	return pool, nil
}
