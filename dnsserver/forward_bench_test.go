package dnsserver

import (
	"net"
	"testing"

	"github.com/miekg/dns"
)

// BenchmarkForward is one exchange with an upstream on the same machine, its
// part included: over UDP with a socket and a port of its own, over TCP with a
// connection that is used again.
func BenchmarkForward(b *testing.B) {
	up := constant(b, "192.0.2.1")
	cfg, _ := forwardTo(up)
	_, f := forwardOf(b, cfg)
	r := askFor("a.example.", dns.TypeA, edns(1232, false))
	for name, tcp := range map[string]bool{"UDP": false, "TCP": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.ask(b.Context(), r, tcp); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkForwardSocket is the part of it that a fresh socket costs.
func BenchmarkForwardSocket(b *testing.B) {
	up := constant(b, "192.0.2.1")
	b.ReportAllocs()
	for b.Loop() {
		conn, err := net.Dial("udp", up.addr.String())
		if err != nil {
			b.Fatal(err)
		}
		_ = conn.Close()
	}
}
