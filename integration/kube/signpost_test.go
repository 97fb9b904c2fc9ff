package kube

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	authorizationv1 "k8s.io/api/authorization/v1"

	"signpost/integration/lab"
)

// kubeadm is kubeadm's Corefile with the ports and the upstream of a test, and
// the API server named, as it is where signpost is no pod.
const kubeadm = `.:DNS {
    bind 127.0.0.1
    errors
    health 127.0.0.1:HEALTH {
       lameduck 0s
    }
    ready 127.0.0.1:READY
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       kubeconfig KUBECONFIG
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus 127.0.0.1:METRICS
    forward . UPSTREAM {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
    admin unix://DIR/admin.sock
}
`

// account is signpost's in deploy/rbac.yaml.
const account = "signpost"

// grant gives signpost the rights of deploy/rbac.yaml and returns a token.
func (c *cluster) grant() string {
	c.t.Helper()
	text, err := os.ReadFile("../../deploy/rbac.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	c.apply(c.t, string(text))
	return c.token(account, watching("", "services"), watching("discovery.k8s.io", "endpointslices"), watching("networking.k8s.io", "servicecidrs"))
}

// watching is the right to watch a resource.
func watching(group, resource string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: "watch", Group: group, Resource: resource}
}

// server is signpost as a process.
type server struct {
	t                   *testing.T
	dns, ready, metrics string // addresses
	*process
}

// startServer starts signpost with a Corefile, in which the words in capitals
// are replaced.
func startServer(t *testing.T, corefile, kubeconfig string) *server {
	t.Helper()
	dir := t.TempDir()
	binary, err := lab.Binary(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	port := func() string { return freePort(t) }
	dnsPort, ready, metrics := port(), port(), port()
	path := filepath.Join(dir, "Corefile")
	writeFile(t, path, strings.NewReplacer("DNS", dnsPort, "HEALTH", port(), "READY", ready, "METRICS", metrics,
		"KUBECONFIG", kubeconfig, "UPSTREAM", upstream(t), "DIR", dir).Replace(corefile))
	s := &server{t: t, dns: "127.0.0.1:" + dnsPort, ready: "127.0.0.1:" + ready, metrics: "127.0.0.1:" + metrics}
	s.process = startProcess(t, dir, "signpost", binary, "serve", "-conf", path)
	return s
}

// waitReady waits until /ready says so.
func (s *server) waitReady() {
	s.t.Helper()
	eventually(s.t, "a signpost that is ready", func() bool {
		select {
		case <-s.ended:
			s.t.Fatal("signpost ended")
		default:
		}
		status, _ := s.get(s.ready, "/ready")
		return status == http.StatusOK
	})
}

// get asks one of its HTTP servers; status 0: there is none yet.
func (s *server) get(address, path string) (status int, text string) {
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body)
}

// ask sends a query and returns the answer in words: the records' data, sorted
// and joined by commas, or the response code where it is another than NOERROR.
func (s *server) ask(name, kind string) string {
	s.t.Helper()
	reply, err := exchange(s.dns, name, kind)
	if err != nil {
		s.t.Fatalf("asking for %s %s: %v", name, kind, err)
	}
	return words(reply)
}

func exchange(server, name, kind string) (*dns.Msg, error) {
	client := dns.Client{Timeout: patience}
	reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.StringToType[kind]), server)
	return reply, err
}

func words(reply *dns.Msg) string {
	if reply.Rcode != dns.RcodeSuccess {
		return dns.RcodeToString[reply.Rcode]
	}
	var data []string
	for _, rr := range reply.Answer {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(data)
	return strings.Join(data, ",")
}

// expect waits for an answer.
func (s *server) expect(name, kind, want string) {
	s.t.Helper()
	var got string
	defer func() {
		if s.t.Failed() && got != want {
			s.t.Logf("%s %s: %q, want %q", name, kind, got, want)
		}
	}()
	eventually(s.t, name+" "+kind+" "+want, func() bool { got = s.ask(name, kind); return got == want })
}

// figure is one of its metrics; 0: there is none.
func (s *server) figure(name string) (value float64) {
	s.t.Helper()
	_, text := s.get(s.metrics, "/metrics")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				s.t.Fatalf("metric %q: %v", line, err)
			}
		}
	}
	return value
}

// upstream starts a name server that knows www.example.com and nothing else.
func upstream(t *testing.T) string {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	known, err := dns.NewRR("www.example.com. 60 IN A 192.0.2.80")
	if err != nil {
		t.Fatal(err)
	}
	started, done := make(chan struct{}), make(chan error, 1)
	srv := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) }}
	srv.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		if q := r.Question[0]; q.Name == known.Header().Name && q.Qtype == dns.TypeA {
			m.Answer = []dns.RR{known}
		}
		_ = w.WriteMsg(m) // lost is silent
	})
	go func() { done <- srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = srv.Shutdown(); <-done })
	return conn.LocalAddr().String()
}
