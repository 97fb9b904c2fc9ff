package corefile

import (
	"crypto/tls"
	"net/netip"
	"strings"

	"signpost/dnsserver"
)

// TLS is the certificate of a server block that is reached by tls:// or
// https://, as files.
type TLS struct {
	Place

	Cert, Key string
	CA        string // empty: the system's
	// ClientAuth is whether clients must show a certificate.
	ClientAuth tls.ClientAuthType
	// KeyLog is a file for the sessions' keys, for debugging; empty: none.
	KeyLog string
}

var clientAuths = map[string]tls.ClientAuthType{
	"nocert": tls.NoClientCert, "request": tls.RequestClientCert, "require": tls.RequireAnyClientCert,
	"verify_if_given": tls.VerifyClientCertIfGiven, "require_and_verify": tls.RequireAndVerifyClientCert,
}

// tls reads "tls CERT KEY [CA] { client_auth MODE; keylog FILE }".
func (b *builder) tls(s *scan) {
	t := &TLS{Place: s.place()}
	b.server.TLS = t
	if !s.count(2, 3, "CERT, KEY and at most a CA") {
		return
	}
	t.Cert, t.Key = s.args[0], s.args[1]
	if len(s.args) == 3 {
		t.CA = s.args[2]
	}
	options := map[string]func(*scan){
		"client_auth": func(o *scan) {
			t.ClientAuth = clientAuths[o.oneOf("nocert", "request", "require", "verify_if_given", "require_and_verify")]
		},
		"keylog": func(o *scan) { t.KeyLog = o.word("a file") },
	}
	for _, name := range []string{"acme", "email", "ca", "storage", "ca_root", "resolver"} {
		options[name] = func(o *scan) { o.errorf("is not supported: certificates come from files: remove this line") }
	}
	s.options(options)
}

// checkTLS reports blocks that need a certificate and have none.
func (b *builder) checkTLS() {
	for _, a := range b.server.Addresses {
		if a.Transport != dnsserver.PlainDNS && b.server.TLS == nil {
			b.errs = append(b.errs, b.server.Errorf(a.String(), "has no tls: must have tls CERT KEY")...)
			return
		}
	}
}

// transfer reads "transfer [ZONE…] { to ADDRESS…|*; source ADDRESS }".
func (b *builder) transfer(s *scan) {
	t := dnsserver.TransferConfig{Zones: s.zones(s.args)}
	s.options(map[string]func(*scan){
		"to": func(o *scan) {
			o.count(1, -1, "one or more addresses, or *")
			for _, arg := range o.args {
				if arg == "*" {
					t.ToAll = true
					continue
				}
				t.To = append(t.To, o.peer(arg))
			}
		},
		"source": func(o *scan) {
			if w := o.word("an address"); w != "" {
				t.Source = o.peer(w).Addr()
			}
		},
	})
	if len(t.To) == 0 && !t.ToAll {
		s.errorf("has no to: must have one or more addresses, or *")
	}
	b.server.Block.Transfers = append(b.server.Block.Transfers, t)
}

// peer reads an address with or without a port.
func (s *scan) peer(arg string) netip.AddrPort {
	if a, err := netip.ParseAddr(strings.Trim(arg, "[]")); err == nil {
		return netip.AddrPortFrom(a, 53)
	}
	ap, err := netip.ParseAddrPort(arg)
	if err != nil {
		s.argError(arg, "an IP address with or without a port")
	}
	return ap
}
