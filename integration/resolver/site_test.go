package resolver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"signpost/integration/lab"
	"signpost/vip/viptest"
)

const (
	host = "pod"
	// patience is less than what a resolver waits (5 s) before it asks again: an
	// answer that doesn't come fails, rather than being late.
	patience = 4 * time.Second
	startup  = 20 * time.Second
)

const corefile = `.:53 {
    bind 127.0.0.1
    errors
    manifests manifests {
        service_cidr 10.96.0.0/16 fd00:96::/112
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        fallthrough in-addr.arpa ip6.arpa
    }
    forward . 127.0.0.2
    cache 30
    ready 127.0.0.1:8181
    admin unix://signpost.sock
}
`

// site is a host with signpost on 127.0.0.1:53 and a pod's resolv.conf.
type site struct{ *lab.Lab }

func newSite(t *testing.T) site {
	t.Helper()
	viptest.NeedRoot(t)
	binary, err := lab.Binary(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	topology := lab.Topology{Nodes: []lab.Node{{Name: host, Addrs: []netip.Addr{netip.MustParseAddr("192.168.6.140")}}}}
	l, err := lab.New(t.Context(), topology, lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("closing the lab: %v", err)
		}
	})
	s := site{l}
	s.upstream(t)
	s.signpost(t, binary)
	if err := l.Resolve(host, "127.0.0.1", "default.svc.cluster.local", "svc.cluster.local", "cluster.local"); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s site) signpost(t *testing.T, binary string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(s.Dir, "manifests"), os.DirFS("testdata/manifests")); err != nil {
		t.Fatal(err)
	}
	p, err := s.Signpost(t.Context(), host, binary, corefile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("signpost:\n%s", p.Output())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), startup)
	defer cancel()
	if err := s.Await(ctx, host, "http://127.0.0.1:8181/ready", p); err != nil {
		t.Fatal(err)
	}
}

// records are what the upstream knows.
var records = []string{
	"www.example.com. 60 IN A 192.0.2.80",
	"www.example.com. 60 IN AAAA 2001:db8::80",
	"four.example.com. 60 IN A 192.0.2.4",
}

// upstream serves the records at 127.0.0.2:53, over UDP and TCP.
func (s site) upstream(t *testing.T) {
	t.Helper()
	known := map[string][]dns.RR{}
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		known[rr.Header().Name] = append(known[rr.Header().Name], rr)
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		_ = w.WriteMsg(answer(known, r)) // a client that has gone asks again
	})
	const at = "127.0.0.2:53"
	var conn net.PacketConn
	err := s.RunIn(host, func() error {
		var err error
		conn, err = new(net.ListenConfig).ListenPacket(t.Context(), "udp", at)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, &dns.Server{PacketConn: conn, Handler: handler})
	listener, err := s.Listen(t.Context(), host, at)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, &dns.Server{Listener: listener, Handler: handler})
}

// serve runs a server until the test ends.
func serve(t *testing.T, server *dns.Server) {
	t.Helper()
	done, started := make(chan error, 1), make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() { done <- server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(), <-done); err != nil {
			t.Errorf("ending the upstream: %v", err)
		}
	})
}

// answer makes the upstream's answer to a query.
func answer(known map[string][]dns.RR, r *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	list, ok := known[dns.CanonicalName(r.Question[0].Name)]
	if !ok && r.Question[0].Name != "." {
		m.Rcode = dns.RcodeNameError
	}
	for _, rr := range list {
		if rr.Header().Rrtype == r.Question[0].Qtype {
			m.Answer = append(m.Answer, rr)
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{&dns.SOA{
			Hdr: dns.RR_Header{Name: "example.com.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 60},
			Ns:  "ns.example.com.", Mbox: "hostmaster.example.com.", Serial: 1, Minttl: 60,
		}}
	}
	return m
}

// need fails or skips, by name, where a tool is not installed.
func need(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err == nil {
		return
	}
	if os.Getenv("REQUIRE_KERNEL") != "" {
		t.Fatalf("%s is not installed", tool)
	}
	t.Skipf("%s is not installed", tool)
}

// run runs a command line and returns what it says. Tools differ in what they
// call a failure, so that only one that had no time is an error.
func (s site) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := s.Exec(ctx, host, name, args...)
	if ctx.Err() != nil {
		t.Errorf("%s %s: nothing within %s: %v", name, strings.Join(args, " "), patience, err)
	}
	return out
}

// same compares what a tool says with what is expected, in any order.
func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
