package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// forwardingTo is a configuration of loopback addresses that forwards to up.
func forwardingTo(up *scripted, listen ...string) Config {
	cfg := configFor(listen...)
	cfg.Blocks[0].Forwards = []ForwardConfig{{From: ".", To: []string{up.addr.String()}}}
	return cfg
}

// answerOf returns the address in an answer, or the rcode's name.
func answerOf(m *dns.Msg) string {
	if len(m.Answer) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	return m.Answer[0].(*dns.A).A.String()
}

// constant is an upstream that always answers with one address.
func constant(t testing.TB, addr string) *scripted {
	return newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{good(t, r, "@ 60 IN A "+addr)} })
}

// TestReload checks L9: sockets and connections stay, the new configuration
// answers at once, a bad one changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	one, two := constant(t, "192.0.2.1"), constant(t, "192.0.2.2")
	s := startWith(t, forwardingTo(one), nil)
	to := addrOf(s)
	u, c := dialUDP(t, to), dialTCP(t, to)
	both := func(want string) {
		t.Helper()
		query := pack(t, askFor("a.example.", dns.TypeA))
		_, _ = u.Write(query)
		c.send(frame(query))
		if got := answerOf(unpack(t, readUDP(t, u))); got != want {
			t.Errorf("udp: %s, want %s", got, want)
		}
		if got := answerOf(unpack(t, c.recv())); got != want {
			t.Errorf("tcp: %s, want %s", got, want)
		}
	}
	both("192.0.2.1")
	if err := s.Reload(t.Context(), forwardingTo(two)); err != nil {
		t.Fatal(err)
	}
	if addrOf(s) != to {
		t.Errorf("address %v after reload, %v before", addrOf(s), to)
	}
	both("192.0.2.2")

	taken := startWith(t, configFor(), nil)
	broken := forwardingTo(one)
	broken.Blocks[0].Zones = nil
	for name, cfg := range map[string]Config{
		"invalid": broken, "no blocks": {}, "address in use": forwardingTo(one, "127.0.0.1:0", addrOf(taken).String()),
	} {
		if err := s.Reload(t.Context(), cfg); err == nil {
			t.Errorf("L9 %s: no error", name)
		}
		both("192.0.2.2")
	}
	if n := len(s.Addrs()); n != 1 {
		t.Errorf("%d addresses after failed reloads", n)
	}
}

// TestReloadAddresses checks that addresses come and go, and that one may be
// the wildcard of another's port.
func TestReloadAddresses(t *testing.T) {
	t.Parallel()
	one, two := constant(t, "192.0.2.1"), constant(t, "192.0.2.2")
	s := startWith(t, forwardingTo(one, "0.0.0.0:0"), nil)
	port := addrOf(s).Port()
	special := fmt.Sprintf("127.0.0.5:%d", port)

	cfg := forwardingTo(one, "0.0.0.0:0")
	cfg.Blocks = append(cfg.Blocks, forwardingTo(two, special).Blocks...)
	if err := s.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{"127.0.0.1": "192.0.2.1", "127.0.0.5": "192.0.2.2"} {
		to := netip.AddrPortFrom(netip.MustParseAddr(addr), port)
		if got := answerOf(queryUDP(t, to, askFor("a.example.", dns.TypeA))); got != want {
			t.Errorf("udp %s: %s, want %s", to, got, want)
		}
		if got := answerOf(queryTCP(t, to, askFor("a.example.", dns.TypeA))); got != want {
			t.Errorf("tcp %s: %s, want %s", to, got, want)
		}
	}
	old := dialTCP(t, netip.MustParseAddrPort(special))
	old.send(frame(pack(t, askFor("a.example.", dns.TypeA))))
	old.recv()
	if err := s.Reload(t.Context(), forwardingTo(one, "0.0.0.0:0")); err != nil {
		t.Fatal(err)
	}
	old.wantEOF()
	if got := answerOf(queryUDP(t, netip.MustParseAddrPort(special), askFor("a.example.", dns.TypeA))); got != "192.0.2.1" {
		t.Errorf("address is gone, but the wildcard doesn't answer there: %s", got)
	}
}

// TestReloadLosesNothing checks L9 under load: every query is answered while
// configurations are swapped.
func TestReloadLosesNothing(t *testing.T) {
	t.Parallel()
	up := constant(t, "192.0.2.1")
	s := startWith(t, forwardingTo(up), nil)
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 4 {
		u, c := dialUDP(t, addrOf(s)), dialTCP(t, addrOf(s))
		clients.Go(func() {
			for ctx.Err() == nil {
				query := pack(t, askFor("a.example.", dns.TypeA))
				_, _ = u.Write(query)
				c.send(frame(query))
				for _, m := range []*dns.Msg{unpack(t, readUDP(t, u)), unpack(t, c.recv())} {
					if got := answerOf(m); got != "192.0.2.1" {
						t.Errorf("L9: %s", got)
					}
				}
			}
		})
	}
	for i := range 40 {
		cfg := forwardingTo(up)
		cfg.MaxQueries = 100 + i
		if err := s.Reload(t.Context(), cfg); err != nil {
			t.Error(err)
		}
	}
	stop()
	clients.Wait()
}

// TestReloadKeepsCounters checks that counters go on over a reload.
func TestReloadKeepsCounters(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	cfg := forwardingTo(constant(t, "192.0.2.1"))
	cfg.Registerer = reg
	s := startWith(t, cfg, nil)
	for range 3 {
		queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))
		if err := s.Reload(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil { // a query is counted behind its reply
		t.Error(err)
	}
	want := `coredns_dns_requests_total{family="1",proto="udp",server="dns://127.0.0.1:0",type="A",view="",zone="."} 3`
	if got := scrape(t, reg); !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
}
