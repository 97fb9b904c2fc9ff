package dnsserver

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// TestStack checks that the first link is outermost and that nil links are
// left out.
func TestStack(t *testing.T) {
	t.Parallel()
	var order []string
	link := func(name string) middleware {
		return func(next dns.Handler) dns.Handler {
			return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
				order = append(order, name)
				next.ServeDNS(w, r)
			})
		}
	}
	end := func(dns.Handler) dns.Handler {
		return dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) { order = append(order, "end") })
	}
	stack([]middleware{link("a"), nil, link("b"), when(false, link("c")), end}).ServeDNS(nil, nil)
	if got := strings.Join(order, " "); got != "a b end" {
		t.Errorf("order %q, want a b end", got)
	}
}

// resolving starts a server whose queries are answered by what Resolve says
// about the name that next returns.
func resolving(t *testing.T, cfg Config, next func(name string) string, errs chan<- error) *Server {
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, sv := range s.plan {
		r := sv.routes["cluster."]
		r.handler = dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			q := r.Question[0]
			q.Name = next(q.Name)
			got, err := Resolve(queryContext(w), q, r)
			if err != nil {
				errs <- err
				failQuery(w, r, err)
				return
			}
			m := new(dns.Msg).SetRcode(r, got.Rcode)
			m.Answer = append(rrs(t, r.Question[0].Name, "@ 5 IN CNAME "+q.Name), got.Answer...)
			_ = w.WriteMsg(m)
		})
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

// TestResolve checks that handlers can ask the whole server: other blocks of
// the same address, upstreams, themselves, and not for ever (X8).
func TestResolve(t *testing.T) {
	t.Parallel()
	up := newScripted(t, func(r *dns.Msg, tcp bool) []*dns.Msg {
		m := good(t, r, "@ 60 IN A 192.0.2.1")
		m.Truncated = !tcp // X13: the rest is to be had over TCP
		return []*dns.Msg{m}
	})
	cfg, _ := forwardTo(up)
	cfg.Blocks = append(cfg.Blocks, Block{Zones: []string{"cluster."}, Listen: []string{"127.0.0.1:0"}})
	errs := make(chan error, 10)
	s := resolving(t, cfg, func(name string) string {
		switch name {
		case "out.cluster.":
			return "www.example."
		case "twice.cluster.":
			return "out.cluster."
		}
		return name
	}, errs)

	for _, tt := range []struct {
		name    string
		answers int
		err     error
	}{{"out.cluster.", 2, nil}, {"twice.cluster.", 3, nil}, {"self.cluster.", maxDepth, errTooDeep}} {
		m := queryUDP(t, addrOf(s), askFor(tt.name, dns.TypeA))
		if len(m.Answer) != tt.answers || m.Truncated {
			t.Errorf("%s: %v, want %d answers", tt.name, m, tt.answers)
		}
		if tt.err != nil {
			if err := <-errs; !errors.Is(err, tt.err) || m.Rcode != dns.RcodeServerFailure {
				t.Errorf("X8 %s: rcode %d, error %v; want SERVFAIL, %v", tt.name, m.Rcode, err, tt.err)
			}
		}
	}
	if up.last.Load().Question[0].Name != "www.example." || !up.last.Load().RecursionDesired {
		t.Errorf("upstream was asked %v", up.last.Load())
	}
	if _, err := Resolve(t.Context(), dns.Question{Name: "a."}, nil); err == nil {
		t.Error("outside of a query: no error")
	}
}

// TestQueryOf checks that the query is found through writers of middleware.
func TestQueryOf(t *testing.T) {
	t.Parallel()
	q := &query{}
	if got := queryOf(&shuffler{wrapped{&shuffler{wrapped{q}, false}}, false}); got != q {
		t.Errorf("query %p, want %p", got, q)
	}
	if got := queryOf(nil); got != nil {
		t.Errorf("query %v of no writer", got)
	}
	if queryContext(nil) == nil {
		t.Error("no context without a query")
	}
}
