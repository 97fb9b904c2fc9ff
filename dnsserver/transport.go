package dnsserver

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// Transport is how queries reach a block.
type Transport uint8

// The transports.
const (
	// PlainDNS is UDP and TCP (RFC 1035).
	PlainDNS Transport = iota
	// DoT is TLS (RFC 7858).
	DoT
	// DoH is HTTPS with the path /dns-query (RFC 8484).
	DoH
	numTransports
)

// String returns the transport's scheme, as in "tls://.:853".
func (t Transport) String() string { return [numTransports]string{"dns", "tls", "https"}[t] }

// listenKey names a listening address in plans: the address, behind a scheme
// if it isn't plain DNS.
func listenKey(t Transport, addr netip.AddrPort) string {
	if t == PlainDNS {
		return listenString(addr)
	}
	return t.String() + "://" + listenString(addr)
}

// splitKey is the reverse of listenKey.
func splitKey(key string) (Transport, netip.AddrPort, error) {
	transport := PlainDNS
	for _, t := range []Transport{DoT, DoH} {
		if rest, ok := strings.CutPrefix(key, t.String()+"://"); ok {
			transport, key = t, rest
		}
	}
	addr, err := splitListen(key)
	return transport, addr, err
}

// validateTransports checks that an address has one transport, and those with
// TLS a certificate.
func validateTransports(blocks []Block) []error {
	var errs []error
	at := map[string]Transport{}
	for i := range blocks {
		b := &blocks[i]
		name := strings.Join(b.Zones, " ")
		if b.Transport >= numTransports {
			errs = append(errs, fmt.Errorf("block %q: transport %d: unknown", name, b.Transport))
			continue
		}
		if b.Transport != PlainDNS && b.TLS == nil {
			errs = append(errs, fmt.Errorf("block %q: %s:// needs a certificate", name, b.Transport))
		}
		for _, addr := range b.Listen {
			ap, err := splitListen(addr)
			if err != nil || ap.Port() == 0 {
				continue // is reported elsewhere; any free port is no conflict
			}
			other, taken := at[listenString(ap)]
			if taken && other != b.Transport {
				errs = append(errs, fmt.Errorf("block %q: %s://%s: the address is used for %s://", name, b.Transport, addr, other))
			}
			at[listenString(ap)] = b.Transport
		}
	}
	return errs
}

// admit takes in what a block adds to its address beside its zones. Where
// several blocks with TLS share one, the first one's certificate is used.
func (sv *serving) admit(b *Block) {
	if sv.tls == nil && b.TLS != nil {
		sv.tls = b.TLS.Clone()
		sv.tls.MinVersion = max(sv.tls.MinVersion, tls.VersionTLS12)
		if b.Transport == DoH {
			sv.tls.NextProtos = []string{"h2", "http/1.1"}
		}
	}
	for _, r := range b.Rewrites {
		sv.otherClasses = sv.otherClasses || r.Field == RewriteClass && r.FromCode != dns.ClassINET
	}
	for _, t := range b.Templates {
		sv.otherClasses = sv.otherClasses || t.Class != dns.ClassINET
	}
}

// secure puts TLS over a connection where the transport wants that. The
// handshake comes with the first read, and within the same time.
func (t *tcpServer) secure(conn *net.TCPConn) streamConn {
	if cfg := t.l.serving.Load().tls; cfg != nil {
		return tls.Server(conn, cfg)
	}
	return conn
}
