package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"signpost/vip/viptest"
)

func TestNftables(t *testing.T)  { scenarios(t, "nftables") }
func TestUserspace(t *testing.T) { scenarios(t, "userspace") }

func TestIptables(t *testing.T) {
	needMode(t, "iptables", "REQUIRE_IPTABLES")
	scenarios(t, "iptables")
}

// TestIPVS needs a kernel with IPVS; "make integration-ipvs" has one.
func TestIPVS(t *testing.T) {
	needMode(t, "ipvs", "REQUIRE_IPVS")
	scenarios(t, "ipvs")
}

// needMode skips where the program says that it can't run a mode, with its
// reason; with a variable in the environment, it fails.
func needMode(t *testing.T, mode, required string) {
	t.Helper()
	viptest.NeedRoot(t)
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), binary, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != mode || words[1] == "yes" {
			continue
		}
		if os.Getenv(required) != "" {
			t.Fatal(line)
		}
		t.Skip(strings.TrimSpace(line))
	}
}

// scenarios goes through the files of testdata/cluster, one test a file.
func scenarios(t *testing.T, mode string) {
	c := newCluster(t, mode, "testdata/cluster")
	for _, s := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"S00 the cluster itself", c.theCluster},
		{"S01 a selector", c.selector},
		{"S02 endpoints by hand", c.manualEndpoints},
		{"S03 cluster addresses and policies", c.clusterAddresses},
		{"S04 node ports", c.nodePorts},
		{"S05 a load balancer with source ranges", c.loadBalancer},
		{"S06 external names", c.externalNames},
		{"S07 headless", c.headless},
		{"S08 not ready", c.notReady},
		{"S09 what is refused", c.refusals},
		{"S10 a typing error", c.typingError},
	} {
		t.Run(s.name, s.test)
	}
}

// Hosts of the cluster.
const (
	master, node1, node2 = "k8s-master", "k8s-node01", "k8s-node02"
	onNode1, onNode2     = "myapp-5th77", "myapp-4qgs8"
)

// enough connections reach each of three endpoints but once in three million
// attempts.
const enough = 40

// reach expects that the connections to an address reach these pods and no
// other, each at least once, and returns the clients that they saw.
func (c *cluster) reach(t *testing.T, host, network, to string, pods ...string) []string {
	t.Helper()
	reached, clients := map[string]bool{}, map[string]bool{}
	for sentence := range c.answers(t, host, network, to, enough) {
		pod, _, client := words(sentence)
		reached[pod], clients[client] = true, true
	}
	slices.Sort(pods)
	if got := slices.Sorted(maps.Keys(reached)); !slices.Equal(got, pods) {
		t.Errorf("%s to %s/%s reached %v, want %v", host, to, network, got, pods)
	}
	return slices.Sorted(maps.Keys(clients))
}

// keeps expects that the pods saw the client's own address, where the mode can
// do that.
func (c *cluster) keeps(t *testing.T, clients []string, want string) {
	t.Helper()
	if c.mode != "userspace" && !slices.Equal(clients, []string{want}) {
		t.Errorf("the pods saw %v, want %s", clients, want)
	}
}

// refused expects a refusal at once, silent that nobody says anything.
func (c *cluster) refused(t *testing.T, host, network, to string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if said, err := c.hear(ctx, host, network, to); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%s to %s/%s: %q, %v, want a refusal", host, to, network, said, err)
	}
}

func (c *cluster) silent(t *testing.T, host, network, to string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	said, err := c.hear(ctx, host, network, to)
	if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s to %s/%s: %q, %v, want no answer", host, to, network, said, err)
	}
}

// named expects the addresses of a name, asked for from a host.
func (c *cluster) named(t *testing.T, host, name string, want ...string) {
	t.Helper()
	answer := c.ask(t, host, name, dns.TypeA)
	slices.Sort(want)
	if got := values(answer, dns.TypeA); answer.Rcode != dns.RcodeSuccess || !slices.Equal(got, want) {
		t.Errorf("%s asked %s: %s %v, want %v", host, name, dns.RcodeToString[answer.Rcode], got, want)
	}
}

// nameless expects that there is no such name.
func (c *cluster) nameless(t *testing.T, host, name string) {
	t.Helper()
	if answer := c.ask(t, host, name, dns.TypeA); answer.Rcode != dns.RcodeNameError {
		t.Errorf("%s asked %s: %s, want %s", host, name, dns.RcodeToString[answer.Rcode], "NXDOMAIN")
	}
}

// lookUp returns the one address of a name, as a host sees it.
func (c *cluster) lookUp(t *testing.T, host, name string) string {
	t.Helper()
	list := values(c.ask(t, host, name, dns.TypeA), dns.TypeA)
	if len(list) != 1 || !netip.MustParsePrefix("10.96.0.0/12").Contains(netip.MustParseAddr(list[0])) {
		t.Fatalf("%s asked %s: %v, want one address of the service range", host, name, list)
	}
	return list[0]
}

const zone = ".svc.cluster.local"

func (c *cluster) theCluster(t *testing.T) {
	for _, host := range []string{onNode1, onNode2, master, node1} {
		c.named(t, host, "kubernetes.default"+zone, "10.96.0.1")
		c.reach(t, host, "tcp", "10.96.0.1:443", "kubernetes-endpoint")
	}
	c.named(t, onNode1, "kube-dns.kube-system"+zone, "10.96.0.10")
	srv := values(c.ask(t, onNode1, "_https._tcp.kubernetes.default"+zone, dns.TypeSRV), dns.TypeSRV)
	if len(srv) != 1 || !strings.HasSuffix(srv[0], " 443 kubernetes.default"+zone+".") {
		t.Errorf("SRV: %v", srv)
	}
	c.refused(t, onNode1, "tcp", "10.96.0.10:53") // no pod has its labels
	c.refused(t, onNode1, "udp", "10.96.0.10:53")
	c.refused(t, onNode1, "tcp", "10.96.0.1:444")
	c.refused(t, onNode1, "tcp", "10.96.77.77:80")
}

func (c *cluster) selector(t *testing.T) {
	for _, host := range []string{onNode1, master} {
		to := c.lookUp(t, host, "service-demo.default"+zone)
		c.reach(t, host, "tcp", to+":80", "deployment-demo-4zb7l", "deployment-demo-nbtj9", "deployment-demo-zg8tr")
		c.refused(t, host, "tcp", to+":9376")
	}
}

func (c *cluster) manualEndpoints(t *testing.T) {
	c.named(t, onNode1, "endpoints-demo.default"+zone, "10.98.152.19")
	at := map[string]bool{}
	for sentence := range c.answers(t, onNode1, "tcp", "10.98.152.19:80", enough) {
		_, address, _ := words(sentence)
		at[address] = true
	}
	if got := fmt.Sprint(slices.Sorted(maps.Keys(at))); got != "[172.16.58.216:9376 172.16.58.246:9376 172.16.85.246:9376]" {
		t.Errorf("reached %s", got)
	}
}

func (c *cluster) clusterAddresses(t *testing.T) {
	all := []string{"myapp-4qgs8", "myapp-5th77", "myapp-cp75p"}
	c.named(t, onNode1, "myapp-clusterip-service.default"+zone, "10.96.120.10")
	c.keeps(t, c.reach(t, "deployment-demo-nbtj9", "tcp", "10.96.120.10:80", all...), "172.16.85.250")
	c.reach(t, onNode1, "tcp", "10.96.120.10:80", all...) // itself among them
	c.reach(t, node2, "tcp", "10.96.120.10:80", all...)
	c.reach(t, "outside", "tcp", "10.96.120.10:80", all...)

	// Affinity begins with the first connection; some modes choose twice for
	// two that begin in the same instant.
	first := podsOf(c.answers(t, onNode2, "tcp", "10.96.120.11:80", 1))
	if then := podsOf(c.answers(t, onNode2, "tcp", "10.96.120.11:80", enough)); !slices.Equal(first, then) {
		t.Errorf("with session affinity one client reached %v, then %v", first, then)
	}
	c.reach(t, onNode1, "tcp", "10.96.120.12:80", "myapp-5th77")
	c.reach(t, onNode2, "tcp", "10.96.120.12:80", "myapp-4qgs8", "myapp-cp75p")
	c.silent(t, master, "tcp", "10.96.120.12:80") // it has no pod
}

func podsOf(said map[string]int) []string {
	pods := map[string]bool{}
	for sentence := range said {
		pod, _, _ := words(sentence)
		pods[pod] = true
	}
	return slices.Sorted(maps.Keys(pods))
}

func (c *cluster) nodePorts(t *testing.T) {
	all := []string{"myapp-j2vp5", "myapp-p4xrf", "myapp-tmkr9"}
	c.reach(t, onNode1, "tcp", "10.100.1.1:80", all...)
	for _, node := range []string{"192.168.6.139", "192.168.6.140", "192.168.6.141"} {
		c.reach(t, "outside", "tcp", node+":30008", all...)
		c.refused(t, "outside", "tcp", node+":30007")
	}
	c.reach(t, onNode1, "tcp", "192.168.6.140:30008", all...)

	c.keeps(t, c.reach(t, "outside", "tcp", "192.168.6.140:30009", "myapp-j2vp5"), "198.51.100.10")
	c.keeps(t, c.reach(t, "outside", "tcp", "192.168.6.141:30009", "myapp-p4xrf", "myapp-tmkr9"), "198.51.100.10")
	c.silent(t, "outside", "tcp", "192.168.6.139:30009")
	c.reach(t, master, "tcp", "192.168.6.139:30009", all...) // but the node itself gets there

	before := c.allocated(t)
	c.reach(t, "outside", "tcp", net.JoinHostPort("192.168.6.140", before), all...)
	if err := c.running[node1].Stop(); err != nil {
		t.Errorf("signpost on %s ended: %v", node1, err)
	}
	c.start(t, node1)
	c.ready(t, node1)
	if after := c.allocated(t); after != before {
		t.Errorf("after a restart nodeport-auto has node port %s, before %s", after, before)
	}
	c.reach(t, "outside", "tcp", net.JoinHostPort("192.168.6.140", before), all...)
}

// allocated returns the node port that node1 gave the Service that names none.
func (c *cluster) allocated(t *testing.T) string {
	t.Helper()
	out, err := c.Exec(t.Context(), node1, c.binary, "get", "services", "nodeport-auto", "--admin", "unix://"+c.Dir+"/"+node1+".sock")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(out, " 80:")
	port, _, ok := strings.Cut(rest, "/TCP")
	if !ok {
		t.Fatalf("no node port in %q", out)
	}
	return port
}

func (c *cluster) loadBalancer(t *testing.T) {
	pods := []string{"lb-app-1", "lb-app-2"}
	for _, port := range []string{":80", ":443"} {
		c.reach(t, "outside-2", "tcp", "203.0.113.100"+port, pods...) // 203.0.113.7: in the range
		c.silent(t, "outside", "tcp", "203.0.113.100"+port)
		c.reach(t, onNode1, "tcp", "10.100.2.1"+port, pods...)
	}
	c.silent(t, onNode1, "tcp", "203.0.113.100:80")
	c.reach(t, "outside", "tcp", "192.168.6.140:30010", pods...) // ranges are of that address alone
}

func (c *cluster) externalNames(t *testing.T) {
	for name, want := range map[string]string{"externalname-service": "www.example.com.", "mydb": "mydb.example.com."} {
		answer := c.ask(t, onNode1, name+".default"+zone, dns.TypeCNAME)
		if got := values(answer, dns.TypeCNAME); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}

func (c *cluster) headless(t *testing.T) {
	c.named(t, onNode1, "db.default"+zone, "172.16.90.10", "172.16.90.11")
	c.named(t, onNode1, "db-0.db.default"+zone, "172.16.90.10")
	c.named(t, onNode2, "db-1.db.default"+zone, "172.16.90.11")
	c.nameless(t, onNode1, "db-2.db.default"+zone)
	srv := values(c.ask(t, onNode1, "_pg._tcp.db.default"+zone, dns.TypeSRV), dns.TypeSRV)
	if len(srv) != 2 || !strings.HasSuffix(srv[0], " 5432 db-0.db.default"+zone+".") {
		t.Errorf("SRV: %v", srv)
	}
	c.reach(t, onNode2, "tcp", "172.16.90.10:5432", "db-0")
}

func (c *cluster) notReady(t *testing.T) {
	c.named(t, onNode1, "notready-hidden.default"+zone, "10.96.121.10")
	c.refused(t, onNode1, "tcp", "10.96.121.10:80")
	c.reach(t, onNode1, "tcp", "10.96.121.11:80", "warming-z7j57")
	c.reach(t, onNode2, "tcp", "10.96.121.11:80", "warming-z7j57")
}

func (c *cluster) refusals(t *testing.T) {
	log := c.running[node2].Output()
	for name, says := range map[string]string{
		"bad-range": "spec.clusterIPs", "bad-ip": "spec.clusterIPs", "bad-taken": "spec.clusterIPs",
		"bad-nodeport": "nodePort", "bad-nodeport-taken": "nodePort", "bad-ports": "spec.ports",
		"bad-affinity": "timeoutSeconds", "bad-external": "spec.externalName",
	} {
		told := false
		for line := range strings.Lines(log) {
			told = told || strings.Contains(line, "09-bad.yaml") && strings.Contains(line, name) && strings.Contains(line, says)
		}
		if !told {
			t.Errorf("nobody is told about %s, %s", name, says)
		}
		c.nameless(t, onNode2, name+".default"+zone)
	}
}

func (c *cluster) typingError(t *testing.T) {
	c.refused(t, onNode1, "tcp", c.lookUp(t, onNode1, "typo-demo.default"+zone)+":80")
}
