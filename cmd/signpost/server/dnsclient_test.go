package server

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// query returns the data of the records at a name, from the first listener
// that answers for it; nil if none does.
func (r *running) query(name, rtype string) []string {
	r.t.Helper()
	for _, addr := range r.dns.Addrs() {
		if data, answered := ask(r.t, addr, name, rtype); answered {
			return data
		}
	}
	return nil
}

// ask asks one listener over TCP. NXDOMAIN is an answer, SERVFAIL is none.
func ask(t *testing.T, addr netip.AddrPort, name, rtype string) (data []string, answered bool) {
	t.Helper()
	query := new(dns.Msg).SetQuestion(name, dns.StringToType[rtype])
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	reply, _, err := new(dns.Client).ExchangeWithConn(query, &dns.Conn{Conn: conn})
	if err != nil {
		t.Fatal(err)
	}
	for _, rr := range reply.Answer {
		data = append(data, rr.String()[len(rr.Header().String()):])
	}
	return data, reply.Rcode == dns.RcodeSuccess || reply.Rcode == dns.RcodeNameError
}
