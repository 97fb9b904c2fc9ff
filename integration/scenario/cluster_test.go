package scenario

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"signpost/integration/lab"
	"signpost/vip/viptest"
)

// program is the binary under test.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "scenario-")
	if err != nil {
		return "", err
	}
	leftover = dir
	return lab.Binary(context.Background(), dir)
})

// leftover is the folder in which it may have been built; empty: none.
var leftover string

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(leftover)
	os.Exit(code)
}

// cluster is a lab with signpost on its nodes.
type cluster struct {
	*lab.Lab
	mode      string
	binary    string
	manifests string
	running   map[string]*lab.Process // by node
	clients   lab.ClientPorts         // of connect
}

const (
	patience = 30 * time.Second
	// silence is how long no answer must come where there is to be none.
	silence = 300 * time.Millisecond
)

// newCluster builds the lab that a folder of manifests describes, and starts
// signpost on every node.
func newCluster(t *testing.T, mode, folder string) *cluster {
	t.Helper()
	viptest.NeedRoot(t)
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	topology, err := lab.FromManifests(folder)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.New(t.Context(), topology, lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Lab: l, mode: mode, binary: binary, manifests: filepath.Join(l.Dir, "manifests"), running: map[string]*lab.Process{}}
	t.Cleanup(func() {
		if t.Failed() {
			for node, p := range c.running {
				t.Logf("signpost on %s:\n%s", node, p.Output())
			}
		}
		if err := l.Close(); err != nil {
			t.Errorf("closing the lab: %v", err)
		}
	})
	if err := os.CopyFS(c.manifests, os.DirFS(folder)); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	for _, n := range topology.Nodes {
		c.start(t, n.Name)
	}
	for _, n := range topology.Nodes {
		c.ready(t, n.Name)
	}
	return c
}

// start starts signpost on a node; ready waits until it says that it is.
func (c *cluster) start(t *testing.T, node string) {
	t.Helper()
	p, err := c.Signpost(t.Context(), node, c.binary, c.corefile(node))
	if err != nil {
		t.Fatal(err)
	}
	c.running[node] = p
}

func (c *cluster) corefile(node string) string { return c.Corefile(node, c.mode, c.manifests) }

func (c *cluster) ready(t *testing.T, node string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Await(ctx, node, "http://127.0.0.1:8181/ready", c.running[node]); err != nil {
		t.Fatal(err)
	}
}

// node returns the node that a host is or is on; for one outside, the first.
func (c *cluster) node(host string) lab.Node {
	name := host
	for _, p := range c.Topology.Pods {
		if p.Name == host {
			name = p.Node
		}
	}
	i := slices.IndexFunc(c.Topology.Nodes, func(n lab.Node) bool { return n.Name == name })
	return c.Topology.Nodes[max(i, 0)]
}

// ask asks the signpost on a host's node for a name.
func (c *cluster) ask(t *testing.T, host, name string, kind uint16) *dns.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := c.Dial(ctx, host, "udp", netip.AddrPortFrom(c.node(host).Addrs[0], 53).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	query := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
	answer, _, err := new(dns.Client).ExchangeWithConnContext(ctx, query, &dns.Conn{Conn: conn})
	if err != nil {
		t.Fatalf("asking for %s from %s: %v", name, host, err)
	}
	return answer
}

// values returns the data of the answers of one type, sorted.
func values(answer *dns.Msg, kind uint16) []string {
	var list []string
	for _, rr := range answer.Answer {
		if rr.Header().Rrtype == kind {
			list = append(list, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
	}
	slices.Sort(list)
	return list
}

// hear connects from a host and returns what the other side says; the error is
// net's.
func (c *cluster) hear(ctx context.Context, host, network, to string) (string, error) {
	conn, err := c.Dial(ctx, host, network, to)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return c.say(ctx, conn)
}

// say says hello and returns the answer.
func (c *cluster) say(ctx context.Context, conn net.Conn) (string, error) {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return "", err
	}
	buf := make([]byte, 512)
	n, err := conn.Read(buf)
	return strings.TrimSpace(string(buf[:n])), err
}

// connect connects from a port that no other client has: connections to one
// endpoint by several ways must not share one in mode ipvs (docs/modes.md).
func (c *cluster) connect(ctx context.Context, host, to string) (net.Conn, error) {
	return c.DialWith(ctx, host, net.Dialer{LocalAddr: &net.TCPAddr{Port: c.clients.Next()}}, "tcp", to)
}

// answers connects many times at once and returns what was said how often. All
// have to be answered.
func (c *cluster) answers(t *testing.T, host, network, to string, times int) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	said := map[string]int{}
	var all errgroup.Group
	all.SetLimit(20)
	for range times {
		all.Go(func() error {
			line, err := c.hear(ctx, host, network, to)
			if err != nil {
				return fmt.Errorf("%s to %s/%s: %w", host, to, network, err)
			}
			mu.Lock()
			defer mu.Unlock()
			said[line]++
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	return said
}

// words takes "pod NAME at ADDRESS, you are CLIENT" apart.
func words(sentence string) (pod, at, client string) {
	_, _ = fmt.Sscanf(strings.ReplaceAll(sentence, ",", " "), "pod %s at %s you are %s", &pod, &at, &client)
	host, _, _ := net.SplitHostPort(client)
	return pod, at, host
}
